"""The palette: the colours of pictures, which are those of Okabe and Ito and can be told apart by colour-blind readers.

The web pages have colours of their own, for a light and a dark theme, in `service/pages/static/page.css`. Charts of
live series take the colours of matplotlib, because up to six groups share one chart.
"""

BLUE = "#0072B2"
SKY_BLUE = "#56B4E9"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"
GREEN = "#009E73"
ORANGE = "#E69F00"
GREY = "#666666"
"""Not of Okabe and Ito: for curves of comparison."""
BLACK = "#000000"
