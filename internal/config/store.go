package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// longestStore leaves room for the identity of a record in an address of at
// most 1,024 bytes, which is what an attribute and the name of an object hold.
const longestStore = 512

// checkStore says why address cannot be a store.
func checkStore(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("not an address such as gs://bucket/prefix")
	case len(address) > longestStore:
		return fmt.Errorf("has more than %d bytes", longestStore)
	case u.Scheme != "gs" && u.Scheme != "s3" && u.Scheme != "file":
		return errors.New("begins with none of gs://, s3:// and file://")
	case u.Scheme == "file" && (u.Host != "" || !strings.HasPrefix(u.Path, "/")):
		return errors.New("a folder is file:/// and its absolute path")
	case u.Scheme != "file" && (u.Host == "" || u.Port() != ""):
		return errors.New("names no bucket")
	case u.User != nil, u.Fragment != "", u.Scheme != "s3" && u.RawQuery != "":
		return errors.New("has more than a bucket and a prefix")
	default:
		return nil
	}
}
