# ruff: noqa: E501 - statements stand on one line each
"""Statements about orders as BI tools send them and as tutorials of dbt, Mode and warehouses teach them.

The table of orders, and public tables of countries and days, are our own.
"""

import datetime as dt
import random

import pyarrow as pa

_RANDOM = random.Random(7)


def _orders() -> pa.Table:
    """Return 7,500 orders of 3,000 customers, one to four of each, from January 2025 to February 2026."""
    rows = []
    for customer in range(3000):
        for _ in range(1 + customer % 4):
            moment = dt.datetime(2025, 1, 1) + dt.timedelta(hours=_RANDOM.randrange(24 * 420))
            rows.append(
                {
                    "customer_id": customer,
                    "country": ("NO", "SE", "DK", "FI")[customer % 4],
                    "category": _RANDOM.choice(["books", "games", "music", None]),
                    "status": _RANDOM.choice(["paid", "paid", "shipped", "returned"]),
                    "channel": _RANDOM.choice(["web", "web", "web", "app", "app", "store"]),
                    "amount": float(_RANDOM.randrange(5, 200)),
                    "quantity": _RANDOM.randrange(1, 6),
                    "discount": _RANDOM.choice([0.0, 0.0, 5.0, None]),
                    "is_gift": _RANDOM.random() < 0.2,
                    "ordered_at": moment,
                    "order_date": moment.date(),
                }
            )
    return pa.Table.from_pylist(rows)


ORDERS = _orders()
COUNTRIES = pa.table(
    {
        "country": ["NO", "SE", "DK", "FI"],
        "name": ["Norway", "Sweden", "Denmark", "Finland"],
        "region": ["west", "west", "west", "east"],
        "population": [5, 10, 6, 6],
    }
)
_DAYS = [dt.date(2025, 1, 1) + dt.timedelta(days=place) for place in range(420)]
CALENDAR = pa.table({"day": _DAYS, "month": [day.replace(day=1) for day in _DAYS]})

METABASE = [
    'SELECT "public"."orders"."country" AS "country", SUM("public"."orders"."amount") AS "sum" FROM "public"."orders" GROUP BY "public"."orders"."country" ORDER BY "sum" DESC, "public"."orders"."country" ASC',
    'SELECT CAST(DATE_TRUNC(\'month\', "public"."orders"."ordered_at") AS DATE) AS "ordered_at", COUNT(*) AS "count" FROM "public"."orders" GROUP BY CAST(DATE_TRUNC(\'month\', "public"."orders"."ordered_at") AS DATE) ORDER BY CAST(DATE_TRUNC(\'month\', "public"."orders"."ordered_at") AS DATE) ASC',
    'SELECT "source"."country" AS "country", "source"."count" AS "count" FROM (SELECT "public"."orders"."country" AS "country", COUNT(*) AS "count" FROM "public"."orders" GROUP BY "public"."orders"."country") AS "source" WHERE "source"."count" > 1200 ORDER BY "source"."count" DESC LIMIT 1048575',
    'SELECT SUM(CASE WHEN "public"."orders"."status" = \'returned\' THEN 1 ELSE 0.0 END) / COUNT(*) AS "share" FROM "public"."orders"',
    'SELECT (CAST(extract(dow from "public"."orders"."ordered_at") AS integer) + 1) AS "weekday", COUNT(*) AS "count" FROM "public"."orders" GROUP BY (CAST(extract(dow from "public"."orders"."ordered_at") AS integer) + 1) ORDER BY 1 ASC',
    'SELECT COUNT(*) AS "count" FROM "public"."orders" WHERE ("public"."orders"."ordered_at" >= timestamp \'2025-06-01\') AND ("public"."orders"."ordered_at" < timestamp \'2025-07-01\') AND ((LOWER("public"."orders"."category") LIKE \'%book%\'))',
]

SUPERSET = [
    "SELECT DATE_TRUNC('week', ordered_at) AS __timestamp, country AS country, COUNT(*) AS count FROM orders JOIN (SELECT country AS country__, COUNT(*) AS mme_inner__ FROM orders GROUP BY country ORDER BY mme_inner__ DESC LIMIT 2) AS series_limit ON country = country__ GROUP BY DATE_TRUNC('week', ordered_at), country ORDER BY count DESC LIMIT 10000",
    'SELECT channel AS channel, SUM(amount) AS "SUM(amount)", COUNT(DISTINCT customer_id) AS "COUNT_DISTINCT(customer_id)" FROM orders WHERE ordered_at >= \'2025-01-01 00:00:00.000000\' AND ordered_at < \'2026-01-01 00:00:00.000000\' GROUP BY channel ORDER BY "SUM(amount)" DESC LIMIT 100',
    "SELECT country, channel, SUM(amount) AS revenue FROM orders GROUP BY country, channel HAVING SUM(amount) > 70000 ORDER BY revenue DESC",
    "SELECT AVG(amount) AS \"AVG(amount)\" FROM (SELECT * FROM orders WHERE status <> 'returned') AS virtual_table LIMIT 50000",
]

LOOKER = [
    'SELECT orders.country AS "orders.country", COUNT(DISTINCT orders.customer_id) AS "orders.users", COALESCE(SUM(orders.amount), 0) AS "orders.total" FROM orders AS orders WHERE orders.status = \'paid\' GROUP BY 1 ORDER BY 2 DESC FETCH NEXT 500 ROWS ONLY',
    "SELECT TO_CHAR(DATE_TRUNC('month', orders.ordered_at), 'YYYY-MM') AS \"orders.month\", COUNT(*) AS \"orders.count\" FROM orders GROUP BY 1 ORDER BY 1 LIMIT 500",
    "SELECT CASE WHEN orders.amount < 50 THEN '0 to 50' WHEN orders.amount >= 50 AND orders.amount < 100 THEN '50 to 100' WHEN orders.amount >= 100 THEN '100 or Above' ELSE 'Undefined' END AS tier, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1",
]

TABLEAU = [
    'SELECT "orders"."channel" AS "channel", SUM("orders"."amount") AS "sum:amount:ok", COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok" FROM "orders" GROUP BY 1',
    'SELECT DATE_TRUNC( \'QUARTER\', CAST("orders"."order_date" AS DATE) ) AS "tqr:order_date:ok", SUM("orders"."quantity") AS "sum:quantity:ok" FROM "orders" GROUP BY 1',
    'SELECT SUM(1) AS "cnt:orders" FROM "orders" HAVING (COUNT(1) > 0)',
]

POWER_BI = [
    'SELECT "_"."country", SUM("_"."amount") AS "a0" FROM (SELECT "country", "amount", "channel" FROM "orders" AS "$Table") AS "_" WHERE "_"."channel" = \'web\' GROUP BY "_"."country" LIMIT 1000001',
    'SELECT TOP 1000 "rows"."channel" AS "channel", COUNT(1) AS "a0" FROM "orders" AS "rows" GROUP BY "channel" ORDER BY "a0" DESC',
]

TUTORIALS = [
    "WITH source AS (SELECT * FROM orders), renamed AS (SELECT customer_id, amount AS order_amount, LOWER(status) AS order_status, ordered_at FROM source), final AS (SELECT * FROM renamed WHERE order_status <> 'returned') SELECT order_status, COUNT(*) AS n, SUM(order_amount) AS total FROM final GROUP BY 1 ORDER BY 1",
    "WITH monthly AS (SELECT DATE_TRUNC('month', order_date) AS month, SUM(amount) AS revenue FROM orders GROUP BY 1) SELECT month, revenue, LAG(revenue) OVER (ORDER BY month) AS previous, ROUND(100.0 * (revenue - LAG(revenue) OVER (ORDER BY month)) / LAG(revenue) OVER (ORDER BY month), 1) AS growth FROM monthly ORDER BY month",
    "WITH monthly AS (SELECT DATE_TRUNC('month', order_date) AS month, SUM(amount) AS revenue FROM orders GROUP BY 1) SELECT month, SUM(revenue) OVER (ORDER BY month ROWS UNBOUNDED PRECEDING) AS running FROM monthly ORDER BY 1",
    "WITH y AS (SELECT EXTRACT(YEAR FROM order_date) AS year, EXTRACT(MONTH FROM order_date) AS month, SUM(amount) AS revenue FROM orders GROUP BY 1, 2) SELECT a.month, a.revenue AS this_year, b.revenue AS last_year, a.revenue / b.revenue - 1 AS yoy FROM y a JOIN y b ON a.month = b.month AND a.year = b.year + 1 ORDER BY a.month",
    "SELECT country, channel, n FROM (SELECT country, channel, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY country ORDER BY COUNT(*) DESC) AS place FROM orders GROUP BY country, channel) ranked WHERE place = 1 ORDER BY country",
    "SELECT country, channel, SUM(amount) AS revenue FROM orders GROUP BY country, channel QUALIFY RANK() OVER (PARTITION BY country ORDER BY SUM(amount) DESC) <= 2 ORDER BY country, revenue DESC",
    "SELECT DISTINCT ON (country) country, channel, COUNT(*) AS n FROM orders GROUP BY country, channel ORDER BY country, n DESC",
    "SELECT country, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 2) AS pct FROM orders GROUP BY country ORDER BY pct DESC",
    "SELECT country, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM orders) AS pct FROM orders GROUP BY country ORDER BY country",
    "SELECT country, SUM(CASE WHEN channel = 'web' THEN amount ELSE 0 END) AS web, SUM(CASE WHEN channel = 'app' THEN amount ELSE 0 END) AS app, SUM(CASE WHEN channel = 'store' THEN amount ELSE 0 END) AS store FROM orders GROUP BY country ORDER BY country",
    "SELECT country, COUNT(*) FILTER (WHERE is_gift) AS gifts, COUNT(*) FILTER (WHERE NOT is_gift) AS others FROM orders GROUP BY country ORDER BY 1",
    "WITH first_orders AS (SELECT customer_id, MIN(DATE_TRUNC('month', order_date)) AS cohort FROM orders GROUP BY customer_id) SELECT cohort, COUNT(*) AS customers FROM first_orders GROUP BY cohort ORDER BY cohort",
    "WITH first_orders AS (SELECT customer_id, MIN(order_date) AS first_date FROM orders GROUP BY customer_id) SELECT DATE_TRUNC('quarter', f.first_date) AS cohort, DATE_DIFF('month', f.first_date, o.order_date) AS months, COUNT(DISTINCT o.customer_id) AS active FROM orders o JOIN first_orders f ON o.customer_id = f.customer_id GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT COUNT(DISTINCT customer_id) AS bought, COUNT(DISTINCT CASE WHEN status IN ('shipped', 'paid') THEN customer_id END) AS kept, COUNT(DISTINCT CASE WHEN status = 'returned' THEN customer_id END) AS returned FROM orders",
    "WITH steps AS (SELECT customer_id, MAX(CASE WHEN channel = 'web' THEN 1 ELSE 0 END) AS web, MAX(CASE WHEN channel = 'app' THEN 1 ELSE 0 END) AS app, MAX(CASE WHEN channel = 'store' THEN 1 ELSE 0 END) AS store FROM orders GROUP BY customer_id) SELECT SUM(web) AS step_1, SUM(CASE WHEN web = 1 AND app = 1 THEN 1 ELSE 0 END) AS step_2, SUM(CASE WHEN web = 1 AND app = 1 AND store = 1 THEN 1 ELSE 0 END) AS step_3 FROM steps",
    "WITH spine AS (SELECT DISTINCT month FROM calendar), m AS (SELECT CAST(DATE_TRUNC('month', order_date) AS DATE) AS month, COUNT(*) AS n FROM orders GROUP BY 1) SELECT spine.month, COALESCE(m.n, 0) AS n FROM spine LEFT JOIN m ON spine.month = m.month ORDER BY spine.month",
    "SELECT d.month, COALESCE(m.n, 0) AS n FROM (SELECT CAST(UNNEST(GENERATE_SERIES(DATE '2025-01-01', DATE '2025-12-01', INTERVAL '1 month')) AS DATE) AS month) d LEFT JOIN (SELECT CAST(DATE_TRUNC('month', order_date) AS DATE) AS month, COUNT(*) AS n FROM orders GROUP BY 1) m ON d.month = m.month ORDER BY d.month",
    "SELECT COALESCE(country, 'All') AS country, COALESCE(channel, 'All') AS channel, SUM(amount) AS revenue FROM orders GROUP BY ROLLUP (country, channel) ORDER BY 1, 2",
    "SELECT CASE WHEN GROUPING(country) = 1 THEN 'Total' ELSE country END AS country, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((country), ()) ORDER BY n DESC",
    "SELECT orders_per_customer, COUNT(*) AS customers FROM (SELECT customer_id, COUNT(*) AS orders_per_customer FROM orders GROUP BY customer_id) AS c GROUP BY orders_per_customer ORDER BY 1",
    "SELECT AVG(n) AS mean_orders, MAX(n) AS most FROM (SELECT country, COUNT(*) AS n FROM orders GROUP BY country) AS c",
    "SELECT COUNT(*) FROM (SELECT customer_id FROM orders GROUP BY customer_id HAVING COUNT(*) >= 3) AS repeat_customers",
    "SELECT COUNT(DISTINCT customer_id) FROM orders WHERE customer_id IN (SELECT customer_id FROM orders WHERE status = 'returned') AND status = 'paid'",
    "SELECT COUNT(*) AS both FROM (SELECT customer_id FROM orders WHERE channel = 'web' INTERSECT SELECT customer_id FROM orders WHERE channel = 'app') AS t",
    "SELECT COUNT(*) AS only_web FROM (SELECT customer_id FROM orders WHERE channel = 'web' EXCEPT SELECT customer_id FROM orders WHERE channel <> 'web') AS t",
    "SELECT 'web' AS channel, COUNT(*) AS n FROM orders WHERE channel = 'web' UNION ALL SELECT 'app', COUNT(*) FROM orders WHERE channel = 'app' ORDER BY n DESC",
    "SELECT c.name, SUM(o.amount) AS revenue, SUM(o.amount) / MAX(c.population) AS per_head FROM orders o JOIN countries c ON o.country = c.country GROUP BY c.name ORDER BY c.name",
    "SELECT c.region, COUNT(DISTINCT o.customer_id) AS customers FROM orders AS o LEFT JOIN countries AS c ON c.country = o.country GROUP BY c.region",
    "SELECT name, n FROM countries JOIN (SELECT country, COUNT(*) AS n FROM orders GROUP BY country) AS o USING (country) ORDER BY n DESC",
    "SELECT DATE_TRUNC('day', ordered_at)::date AS day, COUNT(*) AS n, AVG(COUNT(*)) OVER (ORDER BY DATE_TRUNC('day', ordered_at)::date ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS week_mean FROM orders WHERE ordered_at < '2025-03-01' GROUP BY 1 ORDER BY 1",
    "SELECT time_bucket(INTERVAL '36 hours', ordered_at) AS bucket, COUNT(*) AS n FROM orders WHERE ordered_at >= '2025-01-03' AND ordered_at < '2025-12-26' GROUP BY bucket ORDER BY bucket",
    "SELECT (SELECT COUNT(*) FROM orders WHERE status = 'returned') * 1.0 / (SELECT COUNT(*) FROM orders) AS return_rate",
    "SELECT EXTRACT(HOUR FROM ordered_at) AS hour, COUNT(*) AS n, NTILE(4) OVER (ORDER BY COUNT(*) DESC) AS quartile FROM orders GROUP BY 1 ORDER BY 1",
    "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) AS median, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY amount) AS p90 FROM orders",
    "SELECT country, VARIANCE(amount) AS variance, STDDEV(amount) AS deviation FROM orders GROUP BY country ORDER BY country",
    "SELECT COALESCE(category, 'unknown') AS category, COUNT(*) AS n FROM orders GROUP BY COALESCE(category, 'unknown') ORDER BY n DESC",
    "SELECT COUNT(*) - COUNT(discount) AS missing, COUNT(discount) AS present FROM orders",
    "SELECT SUM(amount * quantity * (1 - COALESCE(discount, 0) / 100)) AS net FROM orders",
    "SELECT DATE_PART('year', ordered_at) AS y, DATE_PART('week', ordered_at) AS w, COUNT(*) AS n FROM orders GROUP BY y, w ORDER BY y, w",
    "SELECT AVG(gap) AS mean_gap FROM (SELECT customer_id, DATE_DIFF('day', LAG(order_date) OVER (PARTITION BY customer_id ORDER BY ordered_at), order_date) AS gap FROM orders) AS g WHERE gap IS NOT NULL",
    "SELECT channel, COUNT(*) AS firsts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY ordered_at) AS rn FROM orders) AS t WHERE rn = 1 GROUP BY channel ORDER BY channel",
    "WITH totals AS (SELECT customer_id, SUM(amount) AS spent FROM orders GROUP BY customer_id) SELECT CASE WHEN spent >= 300 THEN 'high' WHEN spent >= 100 THEN 'middle' ELSE 'low' END AS segment, COUNT(*) AS customers, AVG(spent) AS mean_spent FROM totals GROUP BY 1 ORDER BY 1",
    "SELECT country, MAX(amount) AS largest FROM orders GROUP BY country",
    "SELECT MIN(ordered_at) AS first_order, MAX(ordered_at) AS last_order FROM orders",
    "SELECT country, STRING_AGG(DISTINCT channel, ', ') AS channels FROM orders GROUP BY country",
    "SELECT * FROM orders ORDER BY amount DESC LIMIT 20",
]

STATEMENTS = [*METABASE, *SUPERSET, *LOOKER, *TABLEAU, *POWER_BI, *TUTORIALS]
