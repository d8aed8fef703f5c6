"""The service behind PostgreSQL's wire protocol, so that psql, JDBC, SQLAlchemy and BI tools can connect."""
