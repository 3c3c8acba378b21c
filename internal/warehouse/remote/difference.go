package remote

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/bigquery"
)

// Difference is one thing that is not as it would be generated.
type Difference struct {
	What string `json:"what"` // "column kafka_key", "partitioning", "text"
	Have string `json:"have"`
	Want string `json:"generated"`
	// Lines are of a text: "- " is what is there, "+ " what would be generated.
	Lines []string `json:"lines,omitempty"`
	// Do is how to mend it, "" where applying again does.
	Do string `json:"do,omitempty"`
}

func (d Difference) String() string {
	s := fmt.Sprintf("%s is %s, generated %s", d.What, cmp.Or(d.Have, "none"), cmp.Or(d.Want, "none"))
	if d.Do != "" {
		s += ": " + d.Do
	}
	return s
}

// Itself is what differs when an object is of another kind.
const Itself = "it"

const (
	rebuild  = "cannot be changed in place: see docs/bigquery.md, Rebuild"
	recreate = "drop it and apply again"
)

// compareTable lists what differs, and notes what is more than generated:
// columns that are no part of any statement of ours and may stay.
func compareTable(want *declaration, have *bigquery.TableMetadata) (differences []Difference, notes []string) {
	if have.Type != bigquery.RegularTable {
		return []Difference{{What: Itself, Have: strings.ToLower(string(have.Type)), Want: kindTable, Do: recreate}}, nil
	}
	path := "`" + want.path() + "`"
	there := map[string]field{}
	for _, f := range columnsOf(have.Schema) {
		there[strings.ToLower(f.name)] = f
	}
	for _, w := range want.columns {
		h, ok := there[strings.ToLower(w.name)]
		delete(there, strings.ToLower(w.name))
		what := "column " + w.name
		switch {
		case !ok && w.required:
			differences = append(differences, Difference{What: what, Have: "missing", Want: w.kind + mode(w), Do: rebuild})
		case !ok:
			differences = append(differences, Difference{What: what, Have: "missing", Want: w.kind, Do: fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", path, w.name, w.kind)})
		case h.kind != w.kind:
			differences = append(differences, Difference{What: what, Have: h.kind + mode(h), Want: w.kind + mode(w), Do: rebuild})
		case h.required && !w.required:
			differences = append(differences, Difference{What: what, Have: h.kind + mode(h), Want: w.kind, Do: fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL", path, w.name)})
		case h.required != w.required:
			notes = append(notes, fmt.Sprintf("column %s may be NULL, generated NOT NULL", w.name))
		}
	}
	for _, f := range columnsOf(have.Schema) {
		if _, extra := there[strings.ToLower(f.name)]; !extra {
			continue
		}
		if f.required {
			differences = append(differences, Difference{What: "column " + f.name, Have: f.kind + mode(f), Do: "nothing would fill it: " + fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL", path, f.name)})
			continue
		}
		notes = append(notes, fmt.Sprintf("column %s %s is more than generated", f.name, f.kind))
	}
	return append(differences, compareStorage(want, have)...), notes
}

// compareStorage is about partitions and clusters.
func compareStorage(want *declaration, have *bigquery.TableMetadata) (out []Difference) {
	differ := func(what, h, w, do string) {
		if h != w {
			out = append(out, Difference{What: what, Have: h, Want: w, Do: do})
		}
	}
	set := func(option string) string {
		return fmt.Sprintf("ALTER TABLE `%s` SET OPTIONS (%s)", want.path(), option)
	}
	partition, cluster := "", ""
	var expiry time.Duration
	filter := have.RequirePartitionFilter
	if p := have.TimePartitioning; p != nil {
		partition = cmp.Or(p.Field, "ingestion time") + " by " + strings.ToLower(cmp.Or(string(p.Type), "day"))
		expiry = p.Expiration
		filter = filter || p.RequirePartitionFilter
	}
	if have.RangePartitioning != nil {
		partition = have.RangePartitioning.Field + " by range"
	}
	if have.Clustering != nil {
		cluster = strings.Join(have.Clustering.Fields, ", ")
	}
	wanted := ""
	if want.partition != "" {
		wanted = want.partition + " by day"
	}
	differ("partitioning", partition, wanted, rebuild)
	differ("clustering", cluster, strings.Join(want.cluster, ", "), "bq update --clustering_fields="+strings.Join(want.cluster, ",")+" "+strings.TrimPrefix(want.project+":"+want.String(), ":"))
	differ("expiration of partitions", days(expiry), days(time.Duration(want.expiryDays)*24*time.Hour), set(fmt.Sprintf("partition_expiration_days = %s", orNull(want.expiryDays))))
	differ("require_partition_filter", fmt.Sprint(filter), fmt.Sprint(want.requireFilter), set(fmt.Sprintf("require_partition_filter = %v", want.requireFilter)))
	if !have.ExpirationTime.IsZero() {
		out = append(out, Difference{What: "expiration of the table", Have: have.ExpirationTime.UTC().Format(time.RFC3339), Do: set("expiration_timestamp = NULL")})
	}
	return out
}

func orNull(days int) string {
	if days == 0 {
		return "NULL"
	}
	return fmt.Sprint(days)
}

func days(d time.Duration) string {
	switch {
	case d == 0:
		return "never"
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	default:
		return d.String()
	}
}

func mode(f field) string {
	if f.required {
		return " NOT NULL"
	}
	return ""
}

func compareView(want *declaration, have *bigquery.TableMetadata) []Difference {
	if have.Type != bigquery.ViewTable {
		return []Difference{{What: Itself, Have: strings.ToLower(string(have.Type)), Want: kindView, Do: recreate}}
	}
	return compareText(have.ViewQuery, want.body)
}

func compareRoutine(want *declaration, have *bigquery.RoutineMetadata) (out []Difference) {
	kind := map[string]string{kindFunction: "TABLE_VALUED_FUNCTION", kindProcedure: "PROCEDURE"}[want.kind]
	if have.Type != kind {
		return []Difference{{What: Itself, Have: strings.ToLower(have.Type), Want: want.kind, Do: recreate}}
	}
	var arguments []field
	for _, a := range have.Arguments {
		arguments = append(arguments, field{name: a.Name, kind: standardKind(a.DataType)})
	}
	if h, w := structOf(arguments), structOf(want.arguments); h != w {
		out = append(out, Difference{What: "arguments", Have: h, Want: w})
	}
	return append(out, compareText(have.Body, want.body)...)
}

// columnsOf spells a schema as SQL does.
func columnsOf(schema bigquery.Schema) []field {
	var out []field
	for _, f := range schema {
		kind := map[bigquery.FieldType]string{
			bigquery.IntegerFieldType: "INT64", bigquery.FloatFieldType: "FLOAT64", bigquery.BooleanFieldType: "BOOL",
		}[f.Type]
		kind = cmp.Or(kind, string(f.Type))
		if f.MaxLength > 0 { // none of ours has a limit
			kind += fmt.Sprintf("(%d)", f.MaxLength)
		}
		if f.Type == bigquery.RecordFieldType {
			kind = structOf(columnsOf(f.Schema))
		}
		if f.Repeated {
			kind = "ARRAY<" + kind + ">"
		}
		out = append(out, field{f.Name, kind, f.Required})
	}
	return out
}

func standardKind(t *bigquery.StandardSQLDataType) string {
	switch {
	case t == nil:
		return ""
	case t.TypeKind == "ARRAY":
		return "ARRAY<" + standardKind(t.ArrayElementType) + ">"
	default:
		return t.TypeKind
	}
}
