package warehouse

import (
	"fmt"
	"slices"
	"strings"
)

// Object is a group of statements that belong together.
type Object string

// The objects, in the order in which they must be created.
const (
	ObjectRaw      Object = "raw"      // the table that the subscription writes
	ObjectViews    Object = "views"    // typed and deduplicated views of it
	ObjectLog      Object = "log"      // deduplicated table and what its merge remembers
	ObjectCurrent  Object = "current"  // current row per record key, kept and computed
	ObjectMerge    Object = "merge"    // the procedure that fills log and current
	ObjectSchedule Object = "schedule" // the call to run every few minutes
	ObjectAudit    Object = "audit"    // queries with parameters that look for trouble
)

// Objects returns all objects in the order in which they must be created.
func Objects() []Object {
	return []Object{ObjectRaw, ObjectViews, ObjectLog, ObjectCurrent, ObjectMerge, ObjectSchedule, ObjectAudit}
}

// Exists reports whether the statements of an object make something that stays.
func (o Object) Exists() bool { return o != ObjectSchedule && o != ObjectAudit }

// ParseObjects checks names of objects.
func ParseObjects(names []string) ([]Object, error) {
	var out []Object
	for _, name := range names {
		o := Object(strings.TrimSpace(name))
		if !slices.Contains(Objects(), o) {
			return nil, fmt.Errorf("%q is not an object: %s", o, strings.Join(objectNames(), ", "))
		}
		out = append(out, o)
	}
	return out, nil
}

func objectNames() []string {
	var out []string
	for _, o := range Objects() {
		out = append(out, string(o))
	}
	return out
}

// templatesOf returns the names of an object's statements, in order. Each is a
// file in templates.
func templatesOf(o Object) []string {
	switch o {
	case ObjectRaw:
		return []string{"raw_table"}
	case ObjectViews:
		return []string{"parsed_view", "records_view", "rejects_view", "dedup_view", "dedup_function"}
	case ObjectLog:
		return []string{"log_table", "incarnations_table", "state_table"}
	case ObjectCurrent:
		return []string{"current_table", "current_view", "latest_view"}
	case ObjectMerge:
		return []string{"merge_procedure"}
	case ObjectSchedule:
		return []string{"schedule_call"}
	case ObjectAudit:
		return []string{"audit_partitions", "audit_found", "audit_landed", "audit_unmerged", "audit_repeated", "audit_keys", "audit_freshness"}
	default:
		return nil
	}
}
