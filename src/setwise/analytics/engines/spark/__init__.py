"""The engine that reads Parquet and CSV files, catalogue tables and data frames with Apache Spark."""
