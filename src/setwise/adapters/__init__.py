"""What other libraries say, in our words and back: dp-accounting, OpenDP, Rényi curves, replace-one neighbours.

No library named here is needed to import this room; each adapter needs the library whose values it is given.
"""
