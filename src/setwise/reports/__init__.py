"""Reports: several questions under one budget, priced together before the first is asked; answers go to files."""
