package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/http"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// gcs speaks Google's JSON API through its generated client. The storage
// library (and with it the driver of gocloud.dev/blob) would add 19 MB to the
// binary and 15 MB to every process for two calls.
type gcs struct {
	objects *storage.ObjectsService
	bucket  string
}

func openGCS(ctx context.Context, bucket string, opts ...option.ClientOption) (*gcs, error) {
	opts = append([]option.ClientOption{option.WithScopes(storage.DevstorageReadWriteScope)}, opts...)
	service, err := storage.NewService(ctx, opts...)
	if err != nil {
		return nil, err //nolint:wrapcheck // Open says what it is about
	}
	return &gcs{objects: service.Objects, bucket: bucket}, nil
}

func (g *gcs) stat(ctx context.Context, name string) (int64, string, bool, error) {
	o, err := g.objects.Get(g.bucket, name).Fields("size", "metadata").Context(ctx).Do()
	switch {
	case codeOf(err) == http.StatusNotFound:
		return 0, "", false, nil
	case err != nil:
		return 0, "", false, g.explain(err)
	default:
		return int64(o.Size), o.Metadata[sumName], true, nil
	}
}

func (g *gcs) write(ctx context.Context, name string, value []byte, sum string) error {
	check := binary.BigEndian.AppendUint32(nil, crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)))
	object := &storage.Object{Name: name, Crc32c: base64.StdEncoding.EncodeToString(check), Metadata: map[string]string{sumName: sum}}
	_, err := g.objects.Insert(g.bucket, object).IfGenerationMatch(0).Fields("size").Context(ctx).
		Media(bytes.NewReader(value), googleapi.ChunkSize(0), googleapi.ContentType("application/octet-stream")).Do()
	if codeOf(err) == http.StatusPreconditionFailed {
		return nil // it is there already
	}
	return g.explain(err)
}

func (*gcs) close() error { return nil }

// explain says where an operator can help.
func (g *gcs) explain(err error) error {
	switch codeOf(err) {
	case http.StatusNotFound:
		return fault.Operator(missing(g.bucket), err)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Operator(denied(g.bucket, "roles/storage.objectUser"), err)
	case http.StatusBadRequest:
		return fault.Operator("see what Cloud Storage has against the object", err)
	default:
		return err
	}
}

// codeOf returns the HTTP status that err carries, 0 for none.
func codeOf(err error) int {
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		return e.Code
	}
	return 0
}
