"""The simulated market: tape, features, fills, account and the trading environment."""
