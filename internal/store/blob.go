package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/s3blob"   // s3://
	"gocloud.dev/gcerrors"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// partSize bounds what an upload copies at a time, in bytes; S3 takes no less
// than 5 MiB.
const partSize = 8 << 20

// blobs is a bucket that gocloud.dev knows.
type blobs struct {
	bucket *blob.Bucket
	name   string
}

func openBlob(ctx context.Context, u *url.URL) (*blobs, error) {
	name := u.Host
	if u.Scheme == "file" {
		name = u.Path
		// Objects are moved into their place, which must be the same file system.
		q := u.Query()
		q.Set("no_tmp_dir", "true")
		u.RawQuery = q.Encode()
	}
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, err //nolint:wrapcheck // Open says what it is about
	}
	return &blobs{bucket: b, name: name}, nil
}

func (b *blobs) stat(ctx context.Context, name string) (int64, string, bool, error) {
	a, err := b.bucket.Attributes(ctx, name)
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound:
		return 0, "", false, nil
	case err != nil:
		return 0, "", false, b.explain(err)
	default:
		return a.Size, a.Metadata[sumName], true, nil
	}
}

func (b *blobs) write(ctx context.Context, name string, value []byte, sum string) error {
	err := b.bucket.WriteAll(ctx, name, value, &blob.WriterOptions{
		ContentType: "application/octet-stream", Metadata: map[string]string{sumName: sum},
		BufferSize: partSize, MaxConcurrency: 1, IfNotExist: true,
	})
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return nil // it is there already
	}
	return b.explain(err)
}

func (b *blobs) close() error {
	if err := b.bucket.Close(); err != nil {
		return fmt.Errorf("closing bucket %s: %w", b.name, err)
	}
	return nil
}

// explain says where an operator can help.
func (b *blobs) explain(err error) error {
	switch code := gcerrors.Code(err); {
	case err == nil:
		return nil
	case code == gcerrors.NotFound:
		return fault.Operator(missing(b.name), err)
	case code == gcerrors.PermissionDenied, errors.Is(err, fs.ErrPermission):
		return fault.Operator(denied(b.name, "s3:GetObject, s3:PutObject and s3:ListBucket"), err)
	case code == gcerrors.InvalidArgument, code == gcerrors.Unimplemented:
		return fault.Operator("see what the bucket has against the object", err)
	default:
		return err
	}
}
