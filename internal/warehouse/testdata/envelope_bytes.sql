-- What the BigQuery subscription writes: every delivery, duplicates included.
-- Nothing ever changes its rows.
CREATE TABLE IF NOT EXISTS `example-project.kafka.inventory__changes_raw` (
  idempotency_key STRING OPTIONS (description = 'Identity of the Kafka record, for ever'),
  kafka_cluster STRING OPTIONS (description = 'Alias of the Kafka cluster'),
  kafka_topic STRING OPTIONS (description = 'Kafka topic'),
  kafka_topic_id STRING OPTIONS (description = 'Incarnation of the topic: a recreated topic has another; - for none'),
  kafka_partition INT64 OPTIONS (description = 'Kafka partition'),
  kafka_offset INT64 OPTIONS (description = 'Offset of the record in its partition'),
  kafka_leader_epoch INT64 OPTIONS (description = 'Leader epoch under which it was appended, -1 for unknown'),
  kafka_timestamp TIMESTAMP OPTIONS (description = 'Record timestamp as Kafka stored it; NULL when absent or out of range'),
  kafka_date DATE OPTIONS (description = 'UTC day of the timestamp; 1970-01-01 when that is missing or implausible'),
  kafka_key BYTES OPTIONS (description = 'Record key, or its SHA-256 where it was too long to carry; NULL when the record has none'),
  is_tombstone BOOL OPTIONS (description = 'TRUE when the value is null'),
  kafka_offset_gap INT64 OPTIONS (description = 'Holes just before the record: offsets that Kafka itself does not have'),
  headers ARRAY<STRUCT<name STRING, name_base64 BYTES, value STRING, base64 BYTES>> OPTIONS (description = 'Record headers in order; what is not text is in the base64 member'),
  value BYTES OPTIONS (description = 'Record value, byte for byte; NULL for a tombstone'),
  subscription_name STRING OPTIONS (description = 'Subscription that wrote the row'),
  message_id STRING OPTIONS (description = 'Pub/Sub message id: one for each publish that succeeded'),
  publish_time TIMESTAMP OPTIONS (description = 'When Pub/Sub accepted this copy'),
  ordering_key STRING OPTIONS (description = 'Ordering key, where Pub/Sub writes it here; else it is in attributes'),
  attributes JSON OPTIONS (description = 'Message attributes; every member is a JSON string')
)
PARTITION BY DATE(publish_time)
CLUSTER BY publish_time
OPTIONS (
  description = 'Deliveries of Kafka topic inventory.changes, duplicates included',
  partition_expiration_days = 30,
  require_partition_filter = TRUE,
  labels = [('kafka_topic', 'inventory_changes')]
);

-- Typed columns of every delivery. No other object reads the raw table.
-- SAFE forms keep one strange message from failing every query that sees it.
-- A delivery is a record when the parts of its identity agree with the whole;
-- its date depends on nothing but the record, so that all copies share it.
CREATE OR REPLACE VIEW `example-project.kafka.inventory__changes_parsed`
OPTIONS (description = 'Typed deliveries of Kafka topic inventory.changes, duplicates and strangers included')
AS
SELECT
  *,
  CASE
    WHEN kafka_timestamp >= TIMESTAMP '2011-01-01 00:00:00+00' AND kafka_timestamp < TIMESTAMP '2038-01-01 00:00:00+00' THEN DATE(kafka_timestamp)
    ELSE DATE '1970-01-01'
  END AS kafka_date,
  COALESCE(
    kafka_topic = 'inventory.changes'
    AND idempotency_key = CONCAT('v1/', kafka_cluster, '/', kafka_topic, '/', kafka_topic_id, '/',
      CAST(kafka_partition AS STRING), '/', CAST(kafka_leader_epoch AS STRING), '/', CAST(kafka_offset AS STRING)),
    FALSE) AS is_record
FROM (
  SELECT
    idempotency_key,
    kafka_cluster,
    kafka_topic,
    kafka_topic_id,
    kafka_partition,
    kafka_offset,
    kafka_leader_epoch,
    kafka_timestamp,
    kafka_key,
    COALESCE(is_tombstone, FALSE) AS is_tombstone,
    COALESCE(kafka_offset_gap, 0) AS kafka_offset_gap,
    headers, value,
    -- Without a schema, Pub/Sub writes the ordering key among the attributes.
    COALESCE(NULLIF(ordering_key, ''), JSON_VALUE(attributes, '$.ordering_key'), JSON_VALUE(attributes, '$.orderingKey')) AS ordering_key,
    message_id,
    publish_time,
    subscription_name
  FROM `example-project.kafka.inventory__changes_raw`
);

-- Deliveries of records of this topic. A query must bound publish_time.
CREATE OR REPLACE VIEW `example-project.kafka.inventory__changes_records`
OPTIONS (description = 'Deliveries of records of Kafka topic inventory.changes, duplicates included')
AS
SELECT * EXCEPT (is_record)
FROM `example-project.kafka.inventory__changes_parsed`
WHERE is_record;

-- Messages that no bridge wrote, that lost attributes, or of another topic.
-- They are merged nowhere. A query must bound publish_time.
CREATE OR REPLACE VIEW `example-project.kafka.inventory__changes_rejects`
OPTIONS (description = 'Messages that are no records of Kafka topic inventory.changes')
AS
SELECT * EXCEPT (is_record)
FROM `example-project.kafka.inventory__changes_parsed`
WHERE NOT is_record;

-- One row for each record, straight from all that the raw table still has.
-- A filter on publish_time cannot move below the window function, so this reads
-- every partition: use `example-project.kafka.inventory__changes_dedup_between` or `example-project.kafka.inventory__changes_log`
-- for a large topic.
CREATE OR REPLACE VIEW `example-project.kafka.inventory__changes_dedup`
OPTIONS (description = 'Records of Kafka topic inventory.changes, each once, as far back as raw reaches')
AS
SELECT *
FROM `example-project.kafka.inventory__changes_records`
WHERE publish_time >= TIMESTAMP '1970-01-01 00:00:00+00'
QUALIFY ROW_NUMBER() OVER (PARTITION BY idempotency_key ORDER BY publish_time, message_id) = 1;

-- The same for a window of publish times, reading only that window and the
-- hours before it. A record belongs to the window of its first copy; copies up
-- to max_delay_hours apart are recognised. Windows that touch neither overlap
-- nor leave a record out.
CREATE OR REPLACE TABLE FUNCTION `example-project.kafka.inventory__changes_dedup_between`(from_time TIMESTAMP, to_time TIMESTAMP, max_delay_hours INT64)
AS
SELECT *
FROM (
  SELECT *
  FROM `example-project.kafka.inventory__changes_records`
  WHERE publish_time >= TIMESTAMP_SUB(from_time, INTERVAL max_delay_hours HOUR)
    AND publish_time < to_time
  QUALIFY ROW_NUMBER() OVER (PARTITION BY idempotency_key ORDER BY publish_time, message_id) = 1
)
WHERE publish_time >= from_time;

-- One row for each record, kept by the merge. The partition is a day that all
-- copies of a record share, never that of publish_time, in which they differ:
-- a copy that comes days later looks for the first one where it lies.
CREATE TABLE IF NOT EXISTS `example-project.kafka.inventory__changes_log` (
  idempotency_key STRING NOT NULL OPTIONS (description = 'Identity of the Kafka record, for ever'),
  kafka_cluster STRING NOT NULL OPTIONS (description = 'Alias of the Kafka cluster'),
  kafka_topic STRING NOT NULL OPTIONS (description = 'Kafka topic'),
  kafka_topic_id STRING NOT NULL OPTIONS (description = 'Incarnation of the topic: a recreated topic has another; - for none'),
  kafka_partition INT64 NOT NULL OPTIONS (description = 'Kafka partition'),
  kafka_offset INT64 NOT NULL OPTIONS (description = 'Offset of the record in its partition'),
  kafka_leader_epoch INT64 NOT NULL OPTIONS (description = 'Leader epoch under which it was appended, -1 for unknown'),
  kafka_timestamp TIMESTAMP OPTIONS (description = 'Record timestamp as Kafka stored it; NULL when absent or out of range'),
  kafka_date DATE NOT NULL OPTIONS (description = 'UTC day of the timestamp; 1970-01-01 when that is missing or implausible'),
  kafka_key BYTES OPTIONS (description = 'Record key, or its SHA-256 where it was too long to carry; NULL when the record has none'),
  is_tombstone BOOL NOT NULL OPTIONS (description = 'TRUE when the value is null'),
  headers ARRAY<STRUCT<name STRING, name_base64 BYTES, value STRING, base64 BYTES>> OPTIONS (description = 'Record headers in order; what is not text is in the base64 member'),
  value BYTES OPTIONS (description = 'Record value, byte for byte; NULL for a tombstone'),
  message_id STRING OPTIONS (description = 'Message id of the copy that was kept'),
  publish_time TIMESTAMP OPTIONS (description = 'Publish time of the copy that was kept'),
  merged_at TIMESTAMP NOT NULL OPTIONS (description = 'Run of the merge that inserted the row')
)
PARTITION BY kafka_date
CLUSTER BY kafka_offset, kafka_partition
OPTIONS (
  description = 'Records of Kafka topic inventory.changes, each once',
  require_partition_filter = TRUE,
  labels = [('kafka_topic', 'inventory_changes')]
);

-- When each incarnation of the topic was first seen. A recreated topic starts
-- again at offset 0, so this, and no offset, orders records across it.
CREATE TABLE IF NOT EXISTS `example-project.kafka.inventory__changes_incarnations` (
  kafka_cluster STRING NOT NULL OPTIONS (description = 'Alias of the Kafka cluster'),
  kafka_topic_id STRING NOT NULL OPTIONS (description = 'Id of the incarnation'),
  first_publish_time TIMESTAMP NOT NULL OPTIONS (description = 'Earliest publish time of its records')
)
OPTIONS (description = 'Incarnations of Kafka topic inventory.changes');

-- The one row that the merge remembers, and its lock. Making and filling it is
-- one statement, so that two set-ups cannot fill it twice. Each log has its own:
-- conflicts of transactions are between tables, not rows.
CREATE TABLE IF NOT EXISTS `example-project.kafka.inventory__changes_merge_state` (
  singleton INT64 NOT NULL OPTIONS (description = 'Always 1'),
  watermark TIMESTAMP NOT NULL OPTIONS (description = 'End of the last window that was committed, in publish time'),
  swept_at TIMESTAMP NOT NULL OPTIONS (description = 'End of the last sweep that was committed'),
  run_count INT64 NOT NULL OPTIONS (description = 'Runs that were committed')
)
OPTIONS (description = 'State of the merge of Kafka topic inventory.changes, one row')
AS
SELECT 1 AS singleton, TIMESTAMP '1970-01-01 00:00:00+00' AS watermark, TIMESTAMP '1970-01-01 00:00:00+00' AS swept_at, 0 AS run_count;

-- The current row of each record key in each incarnation of the topic. A
-- deleted key stays as a marked row for as long as an older record can still
-- land: without the mark that record would bring the key back. BigQuery does not
-- cluster by BYTES, so a query for one key reads the column of keys as a whole.
CREATE TABLE IF NOT EXISTS `example-project.kafka.inventory__changes_current_rows` (
  kafka_key BYTES NOT NULL OPTIONS (description = 'Record key, or its SHA-256 where it was too long to carry; NULL when the record has none'),
  kafka_cluster STRING NOT NULL OPTIONS (description = 'Alias of the Kafka cluster'),
  kafka_topic_id STRING NOT NULL OPTIONS (description = 'Incarnation of the topic: a recreated topic has another; - for none'),
  kafka_partition INT64 NOT NULL OPTIONS (description = 'Kafka partition'),
  kafka_leader_epoch INT64 NOT NULL OPTIONS (description = 'Leader epoch under which it was appended, -1 for unknown'),
  kafka_offset INT64 NOT NULL OPTIONS (description = 'Offset of the record in its partition'),
  kafka_timestamp TIMESTAMP OPTIONS (description = 'Record timestamp as Kafka stored it; NULL when absent or out of range'),
  headers ARRAY<STRUCT<name STRING, name_base64 BYTES, value STRING, base64 BYTES>> OPTIONS (description = 'Record headers in order; what is not text is in the base64 member'),
  value BYTES OPTIONS (description = 'Record value, byte for byte; NULL for a tombstone'),
  is_deleted BOOL NOT NULL OPTIONS (description = 'TRUE when the last record was a tombstone'),
  updated_at TIMESTAMP NOT NULL OPTIONS (description = 'Run of the merge that last changed the row')
)
OPTIONS (
  description = 'Current row of each key of Kafka topic inventory.changes, deletions marked',
  labels = [('kafka_topic', 'inventory_changes')]
);

-- The current row of each record key, deleted keys left out, as of the last
-- merge. A newer incarnation of the topic beats an older one. The test for
-- deletion stands behind the choice: before it, the previous version would win.
CREATE OR REPLACE VIEW `example-project.kafka.inventory__changes_current`
OPTIONS (description = 'Current row of each key of Kafka topic inventory.changes, as of the last merge')
AS
SELECT c.* EXCEPT (is_deleted)
FROM `example-project.kafka.inventory__changes_current_rows` AS c
JOIN `example-project.kafka.inventory__changes_incarnations` AS i
  ON i.kafka_cluster = c.kafka_cluster AND i.kafka_topic_id = c.kafka_topic_id
WHERE c.kafka_key IS NOT NULL
QUALIFY ROW_NUMBER() OVER (
    PARTITION BY c.kafka_key
    ORDER BY i.first_publish_time DESC, c.kafka_cluster, c.kafka_topic_id) = 1
  AND NOT c.is_deleted;

-- The same, computed from the log at query time: exact also when a record was
-- merged later than the sweep looks back, and cheaper below some ten queries a
-- day. Versions within a partition are ordered by leader epoch and offset;
-- timestamps are not monotonic.
CREATE OR REPLACE VIEW `example-project.kafka.inventory__changes_latest`
OPTIONS (description = 'Current row of each key of Kafka topic inventory.changes, computed from the log')
AS
SELECT l.* EXCEPT (is_tombstone, merged_at)
FROM `example-project.kafka.inventory__changes_log` AS l
JOIN `example-project.kafka.inventory__changes_incarnations` AS i
  ON i.kafka_cluster = l.kafka_cluster AND i.kafka_topic_id = l.kafka_topic_id
WHERE l.kafka_key IS NOT NULL
  AND l.kafka_date >= DATE '1970-01-01'
QUALIFY ROW_NUMBER() OVER (
    PARTITION BY l.kafka_key
    ORDER BY i.first_publish_time DESC, l.kafka_cluster, l.kafka_topic_id,
      l.kafka_partition DESC, l.kafka_leader_epoch DESC, l.kafka_offset DESC) = 1
  AND NOT l.is_tombstone;

-- One run of the merge. A schedule passes NULL; a time makes it look back at
-- least that far. Repeating it is safe, and so is overlap: of two runs at once
-- one is cancelled on the state table and has changed nothing, or it finds
-- nothing left to insert.
CREATE OR REPLACE PROCEDURE `example-project.kafka.inventory__changes_merge`(backfill_from TIMESTAMP)
BEGIN
  DECLARE now_ts TIMESTAMP DEFAULT CURRENT_TIMESTAMP();
  DECLARE watermark_ts, swept_ts, window_start TIMESTAMP;
  DECLARE is_sweep BOOL;
  DECLARE seen_date_min, seen_date_max DATE;
  DECLARE seen_offset_min, seen_offset_max INT64;
  DECLARE new_rows, new_offset_min, new_offset_max INT64;
  DECLARE new_publish_min, new_publish_max TIMESTAMP;
  DECLARE new_date_min, new_date_max DATE;

  -- The window is all that can have landed since the last run of the same kind.
  -- What landed after that run was published no earlier than its end less the
  -- longest delay: 60 minutes in the usual case, the retention of the
  -- subscription in any. So the sweep is measured from the last sweep: a row
  -- that landed just behind it is found by the next sweep alone.
  SET (watermark_ts, swept_ts) = (SELECT AS STRUCT watermark, swept_at FROM `example-project.kafka.inventory__changes_merge_state` WHERE singleton = 1);
  SET is_sweep = TIMESTAMP_DIFF(now_ts, swept_ts, MINUTE) >= 1440;
  SET window_start = CASE
    WHEN is_sweep THEN TIMESTAMP_SUB(LEAST(swept_ts, now_ts), INTERVAL 10140 MINUTE)
    ELSE TIMESTAMP_SUB(LEAST(watermark_ts, now_ts), INTERVAL 60 MINUTE)
  END;
  SET window_start = LEAST(window_start, COALESCE(backfill_from, window_start));

  -- Step 1: identities in the window. No payload is read.
  CREATE OR REPLACE TEMP TABLE seen AS
  SELECT idempotency_key, kafka_cluster, kafka_topic_id, kafka_date, kafka_offset, publish_time
  FROM `example-project.kafka.inventory__changes_records`
  WHERE publish_time >= window_start AND publish_time < now_ts
  QUALIFY ROW_NUMBER() OVER (PARTITION BY idempotency_key ORDER BY publish_time, message_id) = 1;

  -- The day of records without a usable timestamp is kept out of the bounds: it
  -- would widen them to everything.
  SET (seen_date_min, seen_date_max, seen_offset_min, seen_offset_max) = (
    SELECT AS STRUCT
      MIN(NULLIF(kafka_date, DATE '1970-01-01')), MAX(NULLIF(kafka_date, DATE '1970-01-01')),
      MIN(kafka_offset), MAX(kafka_offset)
    FROM seen);

  -- Step 2: those that the log does not have. Variables are constants to the
  -- planner, so that it reads only the partitions between the bounds.
  CREATE OR REPLACE TEMP TABLE fresh AS
  SELECT s.idempotency_key, s.kafka_date, s.kafka_offset, s.publish_time
  FROM seen AS s
  LEFT JOIN (
    SELECT idempotency_key
    FROM `example-project.kafka.inventory__changes_log`
    WHERE (kafka_date BETWEEN seen_date_min AND seen_date_max OR kafka_date = DATE '1970-01-01')
      AND kafka_offset BETWEEN seen_offset_min AND seen_offset_max
  ) AS l ON l.idempotency_key = s.idempotency_key
  WHERE l.idempotency_key IS NULL;

  SET (new_rows, new_publish_min, new_publish_max, new_date_min, new_date_max, new_offset_min, new_offset_max) = (
    SELECT AS STRUCT
      COUNT(*), MIN(publish_time), MAX(publish_time),
      MIN(NULLIF(kafka_date, DATE '1970-01-01')), MAX(NULLIF(kafka_date, DATE '1970-01-01')),
      MIN(kafka_offset), MAX(kafka_offset)
    FROM fresh);

  BEGIN
    BEGIN TRANSACTION;

    -- Step 3: the lock. MERGEs that only insert never conflict, so two runs
    -- would both insert what both found new; updates of one row always do.
    UPDATE `example-project.kafka.inventory__changes_merge_state`
    SET watermark = GREATEST(watermark, now_ts),
        swept_at = CASE WHEN is_sweep THEN GREATEST(swept_at, now_ts) ELSE swept_at END,
        run_count = run_count + 1
    WHERE singleton = 1;
    IF @@row_count != 1 THEN
      RAISE USING MESSAGE = 'the merge state must have exactly one row';
    END IF;

    -- Step 4: incarnations of the topic.
    MERGE INTO `example-project.kafka.inventory__changes_incarnations` AS t
    USING (
      SELECT kafka_cluster, kafka_topic_id, MIN(publish_time) AS first_publish_time
      FROM seen
      GROUP BY kafka_cluster, kafka_topic_id
    ) AS s
    ON t.kafka_cluster = s.kafka_cluster AND t.kafka_topic_id = s.kafka_topic_id
    WHEN MATCHED AND s.first_publish_time < t.first_publish_time THEN
      UPDATE SET first_publish_time = s.first_publish_time
    WHEN NOT MATCHED THEN
      INSERT (kafka_cluster, kafka_topic_id, first_publish_time)
      VALUES (s.kafka_cluster, s.kafka_topic_id, s.first_publish_time);

    IF new_rows > 0 THEN
      -- Step 5: the new records, now with their payloads.
      MERGE INTO `example-project.kafka.inventory__changes_log` AS t
      USING (
        SELECT r.idempotency_key, r.kafka_cluster, r.kafka_topic, r.kafka_topic_id,
          r.kafka_partition, r.kafka_offset, r.kafka_leader_epoch, r.kafka_timestamp,
          r.kafka_date, r.kafka_key, r.is_tombstone, r.headers,
          r.value, r.message_id, r.publish_time
        FROM `example-project.kafka.inventory__changes_records` AS r
        WHERE r.publish_time BETWEEN new_publish_min AND new_publish_max
          AND r.idempotency_key IN (SELECT f.idempotency_key FROM fresh AS f)
        QUALIFY ROW_NUMBER() OVER (PARTITION BY r.idempotency_key ORDER BY r.publish_time, r.message_id) = 1
      ) AS s
      ON (t.kafka_date BETWEEN new_date_min AND new_date_max OR t.kafka_date = DATE '1970-01-01')
        AND t.kafka_offset BETWEEN new_offset_min AND new_offset_max
        AND t.idempotency_key = s.idempotency_key
      WHEN NOT MATCHED THEN
        INSERT (
          idempotency_key, kafka_cluster, kafka_topic, kafka_topic_id,
          kafka_partition, kafka_offset, kafka_leader_epoch, kafka_timestamp,
          kafka_date, kafka_key, is_tombstone, headers,
          value, message_id, publish_time, merged_at)
        VALUES (
          s.idempotency_key, s.kafka_cluster, s.kafka_topic, s.kafka_topic_id,
          s.kafka_partition, s.kafka_offset, s.kafka_leader_epoch, s.kafka_timestamp,
          s.kafka_date, s.kafka_key, s.is_tombstone, s.headers,
          s.value, s.message_id, s.publish_time, now_ts);

      -- Step 6: the current row of each key, from the records just logged.
      MERGE INTO `example-project.kafka.inventory__changes_current_rows` AS t
      USING (
        SELECT l.kafka_key, l.kafka_cluster, l.kafka_topic_id, l.kafka_partition,
          l.kafka_leader_epoch, l.kafka_offset, l.kafka_timestamp, l.headers,
          l.value, l.is_tombstone
        FROM `example-project.kafka.inventory__changes_log` AS l
        WHERE (l.kafka_date BETWEEN new_date_min AND new_date_max OR l.kafka_date = DATE '1970-01-01')
          AND l.kafka_offset BETWEEN new_offset_min AND new_offset_max
          AND l.idempotency_key IN (SELECT f.idempotency_key FROM fresh AS f)
          AND l.kafka_key IS NOT NULL
        QUALIFY ROW_NUMBER() OVER (
            PARTITION BY l.kafka_key, l.kafka_cluster, l.kafka_topic_id
            ORDER BY l.kafka_partition DESC, l.kafka_leader_epoch DESC, l.kafka_offset DESC) = 1
      ) AS s
      ON t.kafka_key = s.kafka_key AND t.kafka_cluster = s.kafka_cluster AND t.kafka_topic_id = s.kafka_topic_id
      WHEN MATCHED AND (
          s.kafka_partition > t.kafka_partition
          OR (s.kafka_partition = t.kafka_partition AND s.kafka_leader_epoch > t.kafka_leader_epoch)
          OR (s.kafka_partition = t.kafka_partition AND s.kafka_leader_epoch = t.kafka_leader_epoch AND s.kafka_offset > t.kafka_offset)) THEN
        UPDATE SET
          kafka_partition = s.kafka_partition, kafka_leader_epoch = s.kafka_leader_epoch, kafka_offset = s.kafka_offset, kafka_timestamp = s.kafka_timestamp,
          headers = s.headers,
          value = s.value,
          is_deleted = s.is_tombstone, updated_at = now_ts
      WHEN NOT MATCHED THEN
        INSERT (
          kafka_key, kafka_cluster, kafka_topic_id, kafka_partition,
          kafka_leader_epoch, kafka_offset, kafka_timestamp, headers,
          value, is_deleted, updated_at)
        VALUES (
          s.kafka_key, s.kafka_cluster, s.kafka_topic_id, s.kafka_partition,
          s.kafka_leader_epoch, s.kafka_offset, s.kafka_timestamp, s.headers,
          s.value, s.is_tombstone, now_ts);
    END IF;

    -- Step 7, in a sweep: of a key that nothing late can touch any more, drop
    -- the rows of older incarnations, and the mark of a deletion.
    IF is_sweep THEN
      MERGE INTO `example-project.kafka.inventory__changes_current_rows` AS t
      USING (
        SELECT c.kafka_key, c.kafka_cluster, c.kafka_topic_id
        FROM `example-project.kafka.inventory__changes_current_rows` AS c
        JOIN `example-project.kafka.inventory__changes_incarnations` AS i
          ON i.kafka_cluster = c.kafka_cluster AND i.kafka_topic_id = c.kafka_topic_id
        WHERE c.kafka_key IS NOT NULL
        QUALIFY MAX(c.updated_at) OVER (PARTITION BY c.kafka_key) < TIMESTAMP_SUB(now_ts, INTERVAL 10140 MINUTE)
          AND (
            c.is_deleted
            OR ROW_NUMBER() OVER (
              PARTITION BY c.kafka_key
              ORDER BY i.first_publish_time DESC, c.kafka_cluster, c.kafka_topic_id) > 1)
      ) AS s
      ON t.kafka_key = s.kafka_key AND t.kafka_cluster = s.kafka_cluster AND t.kafka_topic_id = s.kafka_topic_id
      WHEN MATCHED THEN
        DELETE;
    END IF;

    COMMIT TRANSACTION;
  EXCEPTION WHEN ERROR THEN
    ROLLBACK TRANSACTION;
    RAISE;
  END;
END;

-- The one scheduled query of the topic, every 5 to 60 minutes. It makes the
-- daily sweep by itself. "Transaction is aborted due to concurrent update" means
-- that another run is doing the same: alert on the ages in audit_freshness.
CALL `example-project.kafka.inventory__changes_merge`(NULL);

-- One row for each partition of each incarnation: what is in raw against what
-- Kafka should have sent. A missing range is a question to Kafka, not an answer:
-- it may hold what retention or compaction took since.
--
--   @from_time, @to_time  bound the publish times that are read
--   @expected             array of struct of kafka_cluster, kafka_topic_id,
--                         kafka_partition, from_offset and to_offset (not
--                         included), for partitions of the current incarnation
WITH copies AS (
  SELECT
    kafka_cluster, kafka_topic_id, kafka_partition, kafka_offset,
    MAX(kafka_offset_gap) AS holes,
    COUNT(*) AS deliveries,
    COUNT(DISTINCT message_id) AS publishes,
    COUNT(DISTINCT idempotency_key) AS identities,
    MIN(publish_time) AS first_publish,
    MAX(publish_time) AS last_publish
  FROM `example-project.kafka.inventory__changes_records`
  WHERE publish_time >= @from_time AND publish_time < @to_time
  GROUP BY kafka_cluster, kafka_topic_id, kafka_partition, kafka_offset
),
expected AS (
  SELECT e.kafka_cluster, e.kafka_topic_id, e.kafka_partition, e.from_offset, e.to_offset
  FROM UNNEST(@expected) AS e
),
landed AS (
  -- due is the offset behind the record before, hence the one that is missing
  -- unless this record is it, or says that Kafka itself had none there.
  SELECT
    c.*,
    COALESCE(
      LAG(c.kafka_offset) OVER (PARTITION BY c.kafka_cluster, c.kafka_topic_id, c.kafka_partition ORDER BY c.kafka_offset) + 1,
      e.from_offset,
      c.kafka_offset) AS due
  FROM copies AS c
  LEFT JOIN expected AS e
    ON e.kafka_cluster = c.kafka_cluster AND e.kafka_topic_id = c.kafka_topic_id AND e.kafka_partition = c.kafka_partition
  WHERE e.kafka_partition IS NULL OR (c.kafka_offset >= e.from_offset AND c.kafka_offset < e.to_offset)
),
gaps AS (
  SELECT kafka_cluster, kafka_topic_id, kafka_partition, due AS from_offset, kafka_offset - holes AS to_offset
  FROM landed
  WHERE kafka_offset - holes > due
  UNION ALL
  SELECT e.kafka_cluster, e.kafka_topic_id, e.kafka_partition, COALESCE(MAX(l.kafka_offset) + 1, MIN(e.from_offset)), MIN(e.to_offset)
  FROM expected AS e
  LEFT JOIN landed AS l
    ON l.kafka_cluster = e.kafka_cluster AND l.kafka_topic_id = e.kafka_topic_id AND l.kafka_partition = e.kafka_partition
  GROUP BY e.kafka_cluster, e.kafka_topic_id, e.kafka_partition
  HAVING COALESCE(MAX(l.kafka_offset) + 1, MIN(e.from_offset)) < MIN(e.to_offset)
),
missing AS (
  SELECT
    kafka_cluster, kafka_topic_id, kafka_partition,
    SUM(to_offset - from_offset) AS offsets,
    COUNT(*) AS ranges,
    ARRAY_AGG(STRUCT(from_offset AS from_offset, to_offset AS to_offset) ORDER BY from_offset LIMIT 1000) AS first_ranges
  FROM gaps
  GROUP BY kafka_cluster, kafka_topic_id, kafka_partition
),
totals AS (
  SELECT
    kafka_cluster, kafka_topic_id, kafka_partition,
    COUNT(*) AS records,
    MIN(kafka_offset) AS first_offset,
    MAX(kafka_offset) AS last_offset,
    SUM(LEAST(holes, kafka_offset - due)) AS holes,
    SUM(deliveries) AS deliveries,
    SUM(publishes - 1) AS duplicates_by_publisher,
    SUM(deliveries - publishes) AS duplicates_by_subscription,
    MAX(TIMESTAMP_DIFF(last_publish, first_publish, SECOND)) AS longest_delay_seconds,
    SUM(CASE WHEN identities > 1 THEN 1 ELSE 0 END) AS conflicting_identities,
    MAX(last_publish) AS last_publish_time
  FROM landed
  GROUP BY kafka_cluster, kafka_topic_id, kafka_partition
)
SELECT
  COALESCE(e.kafka_cluster, t.kafka_cluster) AS kafka_cluster,
  COALESCE(e.kafka_topic_id, t.kafka_topic_id) AS kafka_topic_id,
  COALESCE(e.kafka_partition, t.kafka_partition) AS kafka_partition,
  e.kafka_partition IS NOT NULL AS is_expected,
  e.from_offset,
  e.to_offset,
  COALESCE(t.records, 0) AS landed_records,
  t.first_offset,
  t.last_offset,
  COALESCE(t.holes, 0) AS holes,
  COALESCE(m.offsets, 0) AS missing_offsets,
  COALESCE(m.ranges, 0) AS missing_ranges,
  m.first_ranges,
  COALESCE(t.deliveries, 0) AS deliveries,
  COALESCE(t.duplicates_by_publisher, 0) AS duplicates_by_publisher,
  COALESCE(t.duplicates_by_subscription, 0) AS duplicates_by_subscription,
  COALESCE(t.longest_delay_seconds, 0) AS longest_delay_seconds,
  COALESCE(t.conflicting_identities, 0) AS conflicting_identities,
  t.last_publish_time
FROM totals AS t
FULL OUTER JOIN expected AS e
  ON e.kafka_cluster = t.kafka_cluster AND e.kafka_topic_id = t.kafka_topic_id AND e.kafka_partition = t.kafka_partition
LEFT JOIN missing AS m
  ON m.kafka_cluster = COALESCE(e.kafka_cluster, t.kafka_cluster)
  AND m.kafka_topic_id = COALESCE(e.kafka_topic_id, t.kafka_topic_id)
  AND m.kafka_partition = COALESCE(e.kafka_partition, t.kafka_partition)
ORDER BY kafka_cluster, kafka_topic_id, kafka_partition;

-- Which of some offsets the log has, as ranges without a hole. They may have
-- landed before the times that audit_partitions reads.
--
--   @ranges                     array of struct of kafka_cluster, kafka_topic_id,
--                               kafka_partition, from_offset and to_offset (not
--                               included), none of which overlap
--   @from_offset, @to_offset    the least from_offset and the greatest to_offset:
--                               the log is clustered by offset
--   @from_date, @to_date        bound the days of the records, both included;
--                               1970-01-01 is read as well
WITH asked AS (
  SELECT r.kafka_cluster, r.kafka_topic_id, r.kafka_partition, r.from_offset, r.to_offset
  FROM UNNEST(@ranges) AS r
),
found AS (
  -- DISTINCT, since a copy would shift the numbers that tell ranges apart.
  SELECT DISTINCT l.kafka_cluster, l.kafka_topic_id, l.kafka_partition, l.kafka_offset
  FROM `example-project.kafka.inventory__changes_log` AS l
  JOIN asked AS a
    ON a.kafka_cluster = l.kafka_cluster AND a.kafka_topic_id = l.kafka_topic_id AND a.kafka_partition = l.kafka_partition
    AND l.kafka_offset >= a.from_offset AND l.kafka_offset < a.to_offset
  WHERE (l.kafka_date BETWEEN @from_date AND @to_date OR l.kafka_date = DATE '1970-01-01')
    AND l.kafka_offset >= @from_offset AND l.kafka_offset < @to_offset
),
numbered AS (
  -- Offsets that follow each other differ from their rank by the same number.
  SELECT
    kafka_cluster, kafka_topic_id, kafka_partition, kafka_offset,
    kafka_offset - ROW_NUMBER() OVER (PARTITION BY kafka_cluster, kafka_topic_id, kafka_partition ORDER BY kafka_offset) AS run
  FROM found
)
SELECT kafka_cluster, kafka_topic_id, kafka_partition, MIN(kafka_offset) AS from_offset, MAX(kafka_offset) + 1 AS to_offset
FROM numbered
GROUP BY kafka_cluster, kafka_topic_id, kafka_partition, run
ORDER BY kafka_partition, from_offset
LIMIT 100000;

-- Which of some offsets have landed by now, as ranges without a hole: what was
-- still on its way when audit_partitions looked.
--
--   @ranges                     as for audit_found
--   @from_offset, @to_offset    as for audit_found
--   @from_time, @to_time        bound the publish times that are read
WITH asked AS (
  SELECT r.kafka_cluster, r.kafka_topic_id, r.kafka_partition, r.from_offset, r.to_offset
  FROM UNNEST(@ranges) AS r
),
found AS (
  -- DISTINCT, since a copy would shift the numbers that tell ranges apart.
  SELECT DISTINCT l.kafka_cluster, l.kafka_topic_id, l.kafka_partition, l.kafka_offset
  FROM `example-project.kafka.inventory__changes_records` AS l
  JOIN asked AS a
    ON a.kafka_cluster = l.kafka_cluster AND a.kafka_topic_id = l.kafka_topic_id AND a.kafka_partition = l.kafka_partition
    AND l.kafka_offset >= a.from_offset AND l.kafka_offset < a.to_offset
  WHERE l.publish_time >= @from_time AND l.publish_time < @to_time
    AND l.kafka_offset >= @from_offset AND l.kafka_offset < @to_offset
),
numbered AS (
  -- Offsets that follow each other differ from their rank by the same number.
  SELECT
    kafka_cluster, kafka_topic_id, kafka_partition, kafka_offset,
    kafka_offset - ROW_NUMBER() OVER (PARTITION BY kafka_cluster, kafka_topic_id, kafka_partition ORDER BY kafka_offset) AS run
  FROM found
)
SELECT kafka_cluster, kafka_topic_id, kafka_partition, MIN(kafka_offset) AS from_offset, MAX(kafka_offset) + 1 AS to_offset
FROM numbered
GROUP BY kafka_cluster, kafka_topic_id, kafka_partition, run
ORDER BY kafka_partition, from_offset
LIMIT 100000;

-- Records that landed between two times but are not in the log. There is none
-- once a sweep has passed.
--
--   @from_time, @to_time  bound the publish times that are read
--   @from_date, @to_date  bound the days of the records, both included;
--                         1970-01-01 is read as well
SELECT r.idempotency_key, MIN(r.publish_time) AS first_publish_time, COUNT(*) AS deliveries
FROM `example-project.kafka.inventory__changes_records` AS r
LEFT JOIN (
  SELECT idempotency_key
  FROM `example-project.kafka.inventory__changes_log`
  WHERE kafka_date BETWEEN @from_date AND @to_date OR kafka_date = DATE '1970-01-01'
) AS l ON l.idempotency_key = r.idempotency_key
WHERE r.publish_time >= @from_time AND r.publish_time < @to_time
  AND (r.kafka_date BETWEEN @from_date AND @to_date OR r.kafka_date = DATE '1970-01-01')
  AND l.idempotency_key IS NULL
GROUP BY r.idempotency_key
ORDER BY first_publish_time
LIMIT 1000;

-- Records that the log has more than once. There is never one, unless somebody
-- else writes to it.
--
--   @from_date, @to_date  bound the days of the records, both included;
--                         1970-01-01 is read as well
SELECT idempotency_key, COUNT(*) AS copies, MIN(merged_at) AS first_merged_at, MAX(merged_at) AS last_merged_at
FROM `example-project.kafka.inventory__changes_log`
WHERE kafka_date BETWEEN @from_date AND @to_date OR kafka_date = DATE '1970-01-01'
GROUP BY idempotency_key
HAVING COUNT(*) > 1
ORDER BY copies DESC, idempotency_key
LIMIT 1000;

-- Record keys that one incarnation has in several partitions, which happens when
-- their number grows. The highest partition counts as the newest: right where
-- it doubled, else to be judged for these keys.
--
--   @from_date, @to_date  bound the days of the records; both are included
SELECT
  kafka_key, kafka_cluster, kafka_topic_id,
  COUNT(DISTINCT kafka_partition) AS partitions,
  MIN(kafka_partition) AS lowest,
  MAX(kafka_partition) AS highest
FROM `example-project.kafka.inventory__changes_log`
WHERE kafka_date BETWEEN @from_date AND @to_date
  AND kafka_key IS NOT NULL
GROUP BY kafka_key, kafka_cluster, kafka_topic_id
HAVING COUNT(DISTINCT kafka_partition) > 1
ORDER BY partitions DESC, kafka_key
LIMIT 1000;

-- How old the log is. Alert when minutes_since_sweep exceeds two days, or
-- minutes_since_merge a few intervals of the schedule.
SELECT
  watermark,
  swept_at,
  run_count,
  TIMESTAMP_DIFF(CURRENT_TIMESTAMP(), watermark, MINUTE) AS minutes_since_merge,
  TIMESTAMP_DIFF(CURRENT_TIMESTAMP(), swept_at, MINUTE) AS minutes_since_sweep
FROM `example-project.kafka.inventory__changes_merge_state`;

