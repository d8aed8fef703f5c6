# ruff: noqa: E501 - statements stand on one line each
"""Sixty statements as people and programs write them, about one table of events and one public table of countries.

They follow the shapes of BigQuery, Snowflake and Tumult tutorials, of analysts' first questions, and of the SQL that
Superset, Metabase and Tableau send for charts, on tables of our own.
"""

ANALYSTS = [
    "SELECT COUNT(*) FROM events",
    "SELECT COUNT(DISTINCT user_id) FROM events",
    "SELECT country, COUNT(*) FROM events GROUP BY country",
    "SELECT country, COUNT(*), AVG(minutes) FROM events GROUP BY country HAVING COUNT(*) > 100 ORDER BY 3",
    "SELECT country, COUNT(*) AS n FROM events GROUP BY country ORDER BY n DESC LIMIT 3",
    "SELECT AVG(minutes) FROM events WHERE country = 'NO'",
    "SELECT plan, ROUND(AVG(price), 2) AS mean_price FROM events GROUP BY plan ORDER BY mean_price DESC",
    "SELECT SUM(price) / COUNT(*) AS per_event FROM events",
    "SELECT SUM(price * minutes) AS total FROM events",
    "SELECT country, SUM(CASE WHEN paid THEN 1 ELSE 0 END) * 100.0 / COUNT(*) AS share FROM events GROUP BY country",
    "SELECT CASE WHEN minutes < 10 THEN 'short' WHEN minutes < 30 THEN 'middle' ELSE 'long' END AS kind, COUNT(*) "
    "FROM events GROUP BY kind",
    "SELECT DISTINCT country FROM events",
    "SELECT country, device, COUNT(*) FROM events GROUP BY country, device ORDER BY country, device",
    "SELECT LOWER(device) AS device, COUNT(DISTINCT user_id) AS users FROM events GROUP BY 1",
    "SELECT COUNT(*) FROM events WHERE minutes BETWEEN 10 AND 20 AND plan IN ('free', 'pro')",
    "SELECT MEDIAN(minutes) FROM events",
    "SELECT country, MAX(minutes) FROM events GROUP BY country",
    "SELECT COUNT(*) FROM events WHERE at >= '2026-02-01'",
    "SELECT EXTRACT(HOUR FROM at) AS hour, COUNT(*) FROM events GROUP BY hour ORDER BY hour",
    "SELECT * FROM events LIMIT 10",
]

BIGQUERY = [
    "SELECT country, COUNTIF(paid) AS paying, COUNT(*) AS total, SAFE_DIVIDE(COUNTIF(paid), COUNT(*)) AS rate "
    "FROM `events` GROUP BY country ORDER BY rate DESC",
    "SELECT DATE_TRUNC(day, MONTH) AS month, COUNT(DISTINCT user_id) AS users FROM events GROUP BY month ORDER BY month",
    "SELECT DATE_TRUNC(day, WEEK) AS week, SUM(minutes) AS minutes FROM events GROUP BY week ORDER BY week",
    "SELECT APPROX_QUANTILES(minutes, 4) AS quartiles FROM events",
    "SELECT APPROX_QUANTILES(minutes, 100)[OFFSET(50)] AS median FROM events",
    "SELECT country, PERCENTILE_CONT(minutes, 0.9) AS p90 FROM events GROUP BY country",
    "SELECT EXTRACT(DAYOFWEEK FROM day) AS weekday, AVG(minutes) FROM events GROUP BY weekday",
    'SELECT COUNT(*) AS n FROM events WHERE device = "phone"',
    "SELECT IFNULL(plan, 'none') AS plan, COUNT(*) FROM events GROUP BY plan",
    "WITH daily AS (SELECT day, COUNT(*) AS n FROM events GROUP BY day) "
    "SELECT day, n, AVG(n) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS week FROM daily ORDER BY day",
    "SELECT country, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM events GROUP BY country",
    "SELECT user_id, COUNT(*) FROM events GROUP BY user_id ORDER BY 2 DESC LIMIT 10",
    "SELECT COUNT(*) FROM events WHERE day >= DATE_SUB(CURRENT_DATE(), INTERVAL 30 DAY)",
    "SELECT n, COUNT(*) AS users FROM (SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id) GROUP BY n ORDER BY n",
    "SELECT AVG(total) FROM (SELECT user_id, SUM(price) AS total FROM events GROUP BY user_id)",
]

SNOWFLAKE_AND_TUMULT = [
    "SELECT date_trunc('month', at) AS month, COUNT(*) FROM events GROUP BY 1 ORDER BY 1",
    "SELECT country, COUNT(DISTINCT user_id) FROM events GROUP BY country",
    "SELECT AVG(minutes) AS mean, MEDIAN(minutes) AS middle FROM events",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY minutes) AS median FROM events",
    "SELECT country, SUM(minutes) FROM events WHERE paid = TRUE GROUP BY country",
    "SELECT IFF(minutes > 20, 'long', 'short') AS kind, COUNT(*) FROM events GROUP BY kind",
    "SELECT FLOOR(minutes / 10) * 10 AS bin, COUNT(*) FROM events GROUP BY bin ORDER BY bin",
    "SELECT c.region, COUNT(*) AS n FROM events e JOIN countries c ON e.country = c.country GROUP BY c.region",
    "SELECT countries.name, AVG(minutes) FROM events JOIN countries USING (country) GROUP BY countries.name",
    "SELECT COUNT(*) FILTER (WHERE device = 'phone') AS phones, COUNT(*) AS total FROM events",
    "SELECT COUNT(*) FROM events WHERE minutes > (SELECT AVG(minutes) FROM events)",
    "SELECT STDDEV(minutes) FROM events",
    "SELECT country, LISTAGG(device, ',') FROM events GROUP BY country",
    "SELECT plan, COUNT(*) FROM events GROUP BY plan UNION ALL SELECT 'all', COUNT(*) FROM events",
]

BI_TOOLS = [
    "SELECT DATE_TRUNC('day', at) AS __timestamp, COUNT(*) AS count FROM events "
    "WHERE at >= TO_TIMESTAMP('2026-01-01 00:00:00', 'YYYY-MM-DD HH24:MI:SS') "
    "GROUP BY DATE_TRUNC('day', at) ORDER BY count DESC LIMIT 50000",
    'SELECT country AS country, SUM(minutes) AS "SUM(minutes)" FROM events GROUP BY country '
    'ORDER BY "SUM(minutes)" DESC LIMIT 10',
    'SELECT device AS device, count(minutes) AS "COUNT(minutes)" FROM (SELECT device, minutes, country FROM events) '
    "AS virtual_table WHERE country IN ('NO', 'SE') GROUP BY device ORDER BY \"COUNT(minutes)\" DESC LIMIT 1000",
    'SELECT "public"."events"."plan" AS "plan", COUNT(*) AS "count" FROM "public"."events" '
    'GROUP BY "public"."events"."plan" ORDER BY "public"."events"."plan" ASC',
    'SELECT DATE_TRUNC(\'month\', "events"."at") AS "at", AVG("events"."price") AS "avg" FROM "events" '
    'WHERE ("events"."paid" = TRUE) GROUP BY DATE_TRUNC(\'month\', "events"."at") '
    'ORDER BY DATE_TRUNC(\'month\', "events"."at") ASC',
    'SELECT COUNT(DISTINCT "events"."user_id") AS "count" FROM "events"',
    'SELECT "t"."country" AS "country", SUM(1) AS "sum:records:ok" FROM "events" "t" GROUP BY 1',
    'SELECT "t"."device" AS "device", AVG("t"."minutes") AS "avg:minutes:ok" FROM "events" "t" '
    'GROUP BY 1 HAVING (AVG("t"."minutes") >= 5) ORDER BY 2 DESC NULLS LAST',
    "SELECT CAST(at AS DATE) AS day, COUNT(*) FROM events GROUP BY CAST(at AS DATE) ORDER BY 1",
    "SELECT country, plan, COUNT(*) FROM events GROUP BY CUBE (country, plan)",
    "SELECT YEAR(at) AS y, MONTH(at) AS m, SUM(price) FROM events GROUP BY YEAR(at), MONTH(at) ORDER BY y, m",
]

STATEMENTS = [*ANALYSTS, *BIGQUERY, *SNOWFLAKE_AND_TUMULT, *BI_TOOLS]
