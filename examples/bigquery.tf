# The BigQuery half of every route: the objects, the subscription that writes
# the raw table, and the schedule of the merge. It reads routes.yaml and the
# text that these make, beside this file:
#   mskbridge sql --dataset PROJECT.DATASET --out sql
# The dataset, the topics and their dead letters are made elsewhere. Pub/Sub's
# service agent needs roles/bigquery.dataEditor on the dataset, and publisher
# and subscriber roles for dead letters.

variable "project" { type = string }
variable "dataset" { type = string }
variable "location" { type = string }

variable "service_account" {
  type        = string
  description = "runs the merges: roles/bigquery.jobUser, and dataEditor on the dataset"
}

locals {
  file   = yamldecode(file("${path.module}/routes.yaml"))
  routes = { for r in local.file.routes : r.topic => merge(try(local.file.defaults, {}), r) }

  # As mskbridge names tables. Topics with two of . - _ in a row have longer
  # names: look into the folder sql.
  stem = { for t, _ in local.routes : t => replace(replace(t, "-", "___"), ".", "__") }

  statements = { for t, s in local.stem : t => join("\n", [
    for f in sort(fileset("${path.module}/sql/${s}", "*.sql")) : file("${path.module}/sql/${s}/${f}")
    if length(regexall("_(schedule|audit)_", f)) == 0
  ]) }
}

# One script for each route, run again whenever its text changes. It creates
# tables once and replaces views and procedures: it never alters a table.
resource "google_bigquery_job" "objects" {
  for_each = local.routes

  project  = var.project
  location = var.location
  job_id   = "mskbridge_${local.stem[each.key]}_${substr(sha256(local.statements[each.key]), 0, 16)}"

  query {
    query              = local.statements[each.key]
    use_legacy_sql     = false
    create_disposition = "" # both are for queries with a result
    write_disposition  = ""
  }
}

resource "google_pubsub_subscription" "raw" {
  for_each = local.routes

  project = var.project
  name    = "${each.key}-bigquery"
  topic   = try(each.value.to, each.key)
  filter  = "attributes.kafka_topic = \"${each.key}\""

  message_retention_duration = "604800s" # as --retention-days
  expiration_policy { ttl = "" }         # never
  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }
  dead_letter_policy {
    dead_letter_topic     = startswith(each.value.dead_letter, "projects/") ? each.value.dead_letter : "projects/${var.project}/topics/${each.value.dead_letter}"
    max_delivery_attempts = 100
  }
  bigquery_config {
    table            = "${var.project}.${var.dataset}.${local.stem[each.key]}_raw"
    write_metadata   = true
    use_table_schema = try(each.value.format, "raw") == "envelope"
  }
  depends_on = [google_bigquery_job.objects]
}

resource "google_bigquery_data_transfer_config" "merge" {
  for_each = local.routes

  project              = var.project
  location             = var.location
  display_name         = "merge ${each.key}"
  data_source_id       = "scheduled_query"
  schedule             = "every 15 minutes"
  service_account_name = var.service_account
  params               = { query = "CALL `${var.project}.${var.dataset}.${local.stem[each.key]}_merge`(NULL);" }
  depends_on           = [google_bigquery_job.objects]
}
