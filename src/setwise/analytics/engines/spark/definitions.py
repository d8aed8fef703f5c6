"""Checks that reading a data frame, view or catalogue table of Spark cannot fail on any row.

Spark evaluates views and frames while it reads them, and fails on the first row that does not convert. The analysed
query plan shows every conversion. A plan is accepted only if it consists of columns, constants, comparisons, lossless
conversions, and functions that have a value for every argument. Tables must be in Spark's memory or stored as Delta,
Iceberg or Parquet. The files of a Parquet table must have the types of the table; Delta and Iceberg ensure that
themselves.
"""

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from setwise.analytics.engines.spark.files import milliseconds_columns
from setwise.errors import UnsuitableTable

_PLAIN_NODES = frozenset(
    {
        *("SubqueryAlias", "View", "Project", "Filter", "Join", "Union", "Distinct", "ResolvedHint", "Repartition"),
        *("RepartitionByExpression", "LocalRelation", "LogicalRDD", "ExternalRDD", "Range", "OneRowRelation"),
        *("InMemoryRelation", "LogicalRelation", "DataSourceV2Relation"),
    }
)
"""The nodes of a plan that read, select or combine rows, without limiting their number."""
_TOTAL_EXPRESSIONS = frozenset(
    {
        *("AttributeReference", "Alias", "Literal", "OuterReference", "Coalesce", "CaseWhen", "If", "IsNull"),
        *("IsNotNull", "IsNaN", "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan"),
        *("GreaterThanOrEqual", "And", "Or", "Not", "In", "InSet", "Lower", "Upper", "Length", "Concat", "StringTrim"),
        *("Substring", "StartsWith", "EndsWith", "Contains", "Year", "Month", "Quarter", "DayOfMonth", "DayOfWeek"),
        *("Hour", "Minute", "XxHash64", "Murmur3Hash", "Md5", "Rand", "Collate", "TruncDate", "Between"),
        *("With", "CommonExpressionDef", "CommonExpressionRef", "CurrentDate", "CurrentTimestamp"),
    }
)
"""The expressions that have a value, or null, for every argument."""
_WIDER = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "bigint": ("double",),
    "float": ("double",),
}
"""For each type the types to which it is converted without failing; every plain type can also become text."""
_REMEDY = "write it to Parquet, and give the path"


def check_frame(frame: DataFrame, source: str) -> None:
    """Raise `UnsuitableTable` if the data frame `frame` computes or converts values in a way that could fail on a row.

    The failure would reveal values of the row. Only expressions that are known to have a value for every argument are
    accepted. A frame over stored tables is also refused if Spark could fail when it reads their files. `source` names
    the frame in the message.
    """
    for node in _tree(frame._jdf.queryExecution().analyzed()):
        name = _class_name(node)
        total = all(_is_total(each) for root in _items(node.expressions()) for each in _tree(root))
        if name not in _PLAIN_NODES or not total:
            raise UnsuitableTable(
                f"{source} computes what it shows, so one row could make every question fail: {_REMEDY}"
            )
        if name in ("LogicalRelation", "DataSourceV2Relation"):
            _check_storage(frame.sparkSession, node, name, source)


def relations_of(frame: DataFrame) -> set[str]:
    """Return the names of the catalogue tables and views that `frame` reads, and the paths of the files below them.

    Names are in lower case, because Spark ignores case, with their databases and, unless it is Spark's own, their
    catalogues. Paths are complete: they begin with a scheme, as in hdfs://host/data/events or file:/data/events.
    """
    found: set[str] = set()
    for node in _tree(frame._jdf.queryExecution().analyzed()):
        match _class_name(node):
            case "View":
                found.add(_table_name(str(node.desc().identifier().unquotedString())))
            case "LogicalRelation":
                table = node.catalogTable()
                if table.isDefined():
                    found.add(_table_name(str(table.get().identifier().unquotedString())))
                if str(node.relation().getClass().getName()).endswith("HadoopFsRelation"):
                    found |= {str(path) for path in _items(node.relation().location().rootPaths())}
            case "DataSourceV2Relation":
                if node.catalog().isDefined() and node.identifier().isDefined():
                    found.add(_table_name(f"{node.catalog().get().name()}.{node.identifier().get().toString()}"))
            case _:
                pass
    return found


def _table_name(name: str) -> str:
    """Return the full `name` of a catalogue table as it identifies the table: lower case, without Spark's catalogue."""
    return name.lower().removeprefix("spark_catalog.")


def _check_storage(session: SparkSession, leaf: Any, name: str, source: str) -> None:  # noqa: ANN401 - an object of Java
    """Raise `UnsuitableTable` if Spark converts values of a stored table while it reads them.

    A conversion could fail on a value, and the failure would reveal it. Delta and Iceberg tables are accepted. A
    Parquet table is accepted if its files have the types that the table declares, and no timestamps in milliseconds.
    All other formats are refused. `session` is the Spark session, and `leaf` the node of a query plan that reads the
    table. `name` is the Java class of this node, and `source` the table's name for messages.
    """
    stored = str(leaf.table().getClass().getName() if name == "DataSourceV2Relation" else leaf.relation().getClass())
    if name == "LogicalRelation" and stored.endswith("HadoopFsRelation"):
        stored = str(leaf.relation().fileFormat().getClass().getName())
    if any(lake in stored.lower() for lake in (".delta.", ".iceberg.")):
        return
    if not stored.endswith(".ParquetFileFormat"):
        raise UnsuitableTable(
            f"{source} is stored in a format whose rows Spark converts as it reads them, so one row could make every "
            f"question fail: {_REMEDY}"
        )
    files = list(leaf.relation().location().inputFiles())
    declared = {field.name(): field.dataType().catalogString() for field in _items(leaf.relation().dataSchema())}
    if not files or not declared:
        return
    try:
        file_types = dict(session.read.option("mergeSchema", "true").parquet(*files).dtypes)
    except (PySparkException, Py4JError):
        file_types = None
    if file_types is None or any(file_types.get(column, native) != native for column, native in declared.items()):
        raise UnsuitableTable(
            f"the files of {source} have other types than the table, so one row could make every question fail: "
            "write them again with the types of the table"
        )
    if any(milliseconds_columns(session, file) & declared.keys() for file in files):
        raise UnsuitableTable(
            f"the files of {source} have timestamps in milliseconds, on which Spark may fail: give the files' path"
        )


def _is_total(expression: Any) -> bool:  # noqa: ANN401 - an object of Java
    """Return whether a Spark expression gives a value or null, and never an error, for all values of its arguments.

    `expression` is a node of Spark's query plan. Its arguments, the expressions below it, are not checked here: the
    caller checks every node.
    """
    name = _class_name(expression)
    if name == "Cast":
        source, target = expression.child().dataType().catalogString(), expression.dataType().catalogString()
        plain = "<" not in source
        return (
            str(expression.evalMode()) == "TRY"
            or source == target
            or target in _WIDER.get(source, ())
            or (target == "string" and plain)
        )
    if name == "Remainder":
        divisor = expression.right()
        while _class_name(divisor) == "Cast":
            divisor = divisor.child()
        return _class_name(divisor) == "Literal" and str(divisor.value()) not in ("0", "0.0", "None")
    return name in _TOTAL_EXPRESSIONS


def _tree(root: Any) -> Iterator[Any]:  # noqa: ANN401 - an object of Java
    """Yield `root`, a node of a Spark query plan or of an expression in it, and all nodes below it."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _items(node.children())


def _items(sequence: Any) -> list[Any]:  # noqa: ANN401 - an object of Java
    """Return the items of a Scala sequence, a Java object of Spark, as a Python list."""
    return [sequence.apply(place) for place in range(sequence.size())]


def _class_name(node: Any) -> str:  # noqa: ANN401 - an object of Java
    """Return the name, without the package, of the Java class of `node`, a node of a Spark query plan or expression."""
    return str(node.getClass().getName()).rpartition(".")[2]
