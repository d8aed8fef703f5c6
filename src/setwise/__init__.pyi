# The public surface, one line for each name: type checkers read it here, and `setwise/__init__.py` loads from it.

# Asking a table
from setwise.analytics.answer import PrivateAnswer as PrivateAnswer
from setwise.analytics.budget import Draws as Draws
from setwise.analytics.opening import open as open
from setwise.analytics.planning.plan import Plan as Plan
from setwise.analytics.query import Count as Count
from setwise.analytics.query import Mean as Mean
from setwise.analytics.query import Quantile as Quantile
from setwise.analytics.query import Query as Query
from setwise.analytics.query import Sum as Sum
from setwise.analytics.session import Session as Session
from setwise.analytics.tables.domain import labels_of as labels_of
from setwise.analytics.tables.holder_scan import UnreadCellsWarning as UnreadCellsWarning
from setwise.client.client import connect as connect
from setwise.mechanisms.planning.request import Total as Total

# Keeping a budget
from setwise.ledger.account import Account as Account
from setwise.ledger.ledger import Ledger as Ledger

# Composing
from setwise.accounting.brackets import CertifiedBound as CertifiedBound
from setwise.accounting.calibrate import largest_count as largest_count
from setwise.accounting.calibrate import largest_epsilon as largest_epsilon
from setwise.accounting.calibrate import smallest_noise as smallest_noise
from setwise.accounting.compose import compose as compose
from setwise.accounting.guarantees import ApproxDP as ApproxDP
from setwise.accounting.guarantees import BoundedRange as BoundedRange
from setwise.accounting.guarantees import ConcentratedDP as ConcentratedDP
from setwise.accounting.guarantees import Gaussian as Gaussian
from setwise.accounting.guarantees import Laplace as Laplace
from setwise.accounting.guarantees import PureDP as PureDP
from setwise.accounting.guarantees import Use as Use
from setwise.accounting.guarantees import ZeroConcentratedDP as ZeroConcentratedDP
from setwise.accounting.notation import parse_use as parse_use

# Errors; `setwise.errors` has the whole tree
from setwise import errors as errors
from setwise.errors import BadRequest as BadRequest
from setwise.errors import BudgetExhausted as BudgetExhausted
from setwise.errors import InvalidParameter as InvalidParameter
from setwise.errors import SetwiseError as SetwiseError
from setwise.errors import Unavailable as Unavailable

# Mechanisms by hand
from setwise import mechanisms as mechanisms

__version__: str
__all__: list[str]
