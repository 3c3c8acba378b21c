package warehouse

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/mskbridge/mskbridge/internal/message"
)

//go:embed templates/*.sql.tmpl
var files embed.FS

// Statement is one SQL statement.
type Statement struct {
	Object Object
	// Name is unique within a route, such as "raw_table".
	Name string
	// Position is that among all statements of a route, from 1.
	Position int
	// SQL begins with comments and ends with a semicolon and a line break.
	// Statements of ObjectAudit have named parameters.
	SQL string
}

// Render returns the statements of the objects, in the order in which they
// must run, whatever the order of objects. None means all of them.
func Render(s Spec, objects ...Object) ([]Statement, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("rendering SQL of topic %q: %w", s.Topic, err)
	}
	set, err := template.New("").Funcs(functions()).ParseFS(files, "templates/*.sql.tmpl")
	if err != nil {
		return nil, fmt.Errorf("reading SQL templates: %w", err)
	}
	var out []Statement
	position := 0
	for _, o := range Objects() {
		skip := len(objects) > 0 && !slices.Contains(objects, o) || o == ObjectCurrent && s.NoCurrent
		for _, name := range templatesOf(o) {
			position++
			if skip {
				continue
			}
			var b strings.Builder
			if err := set.ExecuteTemplate(&b, name+".sql.tmpl", s.data()); err != nil {
				return nil, fmt.Errorf("rendering SQL of topic %q: %w", s.Topic, err)
			}
			out = append(out, Statement{o, name, position, b.String()})
		}
	}
	return out, nil
}

// data is what the templates see: quoted names, columns, times.
type data struct {
	Spec
	Name  map[string]string // quoted path by suffix
	Label string

	RawColumns, LogColumns, CurrentColumns, Payload []column

	LookbackMinutes, SweepEveryMinutes, SweepLookbackMinutes, RawExpiryDays int
	DateFloor, DateFirst, DateNext                                          string
	MostFound                                                               int
}

func (s Spec) data() data {
	d := data{
		Spec:           s,
		Name:           make(map[string]string),
		Label:          label(s.Topic),
		RawColumns:     rawColumns(s.Format),
		LogColumns:     logColumns(s.Format),
		CurrentColumns: currentColumns(s.Format),
		Payload:        payload(s.Format),

		LookbackMinutes:      lookbackMinutes,
		SweepEveryMinutes:    sweepEveryMinutes,
		SweepLookbackMinutes: s.RetentionDays*24*60 + sweepExtraMinutes,
		RawExpiryDays:        s.RetentionDays + rawExtraDays,
		DateFloor:            message.DateFloor,
		DateFirst:            message.DateFirst,
		DateNext:             message.DateNext,
		MostFound:            MostFound,
	}
	for _, suffix := range suffixes() {
		d.Name[suffix] = s.path(suffix)
	}
	return d
}

// Envelope reports whether the raw table has a column for each part of a record.
func (d data) Envelope() bool { return d.Format != Raw }

// functions give the templates the names of columns and attributes, which they
// never spell themselves.
func functions() template.FuncMap {
	m := template.FuncMap{"columns": define, "list": list, "literal": literal}
	for short, name := range map[string]string{
		"id": message.AttrIdempotencyKey, "cluster": message.ColCluster, "topic": message.AttrTopic,
		"topicID": message.ColTopicID, "partition": message.AttrPartition, "offset": message.AttrOffset,
		"epoch": message.ColLeaderEpoch, "time": message.ColTimestamp, "date": message.ColDate,
		"key": message.AttrKey, "tombstone": message.ColTombstone, "gap": message.AttrGap,
	} {
		m[short] = func() string { return name }
	}
	for short, name := range map[string]string{
		"attrID": message.AttrIdempotencyKey, "attrTopic": message.AttrTopic, "attrPartition": message.AttrPartition,
		"attrOffset": message.AttrOffset, "attrTime": message.AttrTimestamp, "attrKey": message.AttrKey,
		"attrKeyEncoding": message.AttrKeyEncoding, "attrTombstone": message.AttrTombstone, "attrGap": message.AttrGap,
	} {
		m[short] = func() string { return "JSON_VALUE(attributes, '$." + name + "')" }
	}
	m["base64"] = func() string { return literal(message.KeyBase64) }
	m["sha256"] = func() string { return literal(message.KeySHA256) }
	return m
}
