"""Setwise: private analytics with the tightest provable privacy-loss composition."""
