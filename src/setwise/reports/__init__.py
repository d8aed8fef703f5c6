"""Reports: several questions under one budget, priced together before the first is asked, their answers in files."""
