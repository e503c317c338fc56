package redisstore

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/leasewheel/leasewheel/lock"
)

// The metadata of an exclusive lock are a part of what the scripts take for the
// owner: "owner{metadata", in base64. So they cost nothing where there are none, no
// script knows of them, and a lock that is handed over has them from its first
// moment. No owner holds a brace.

const metadataMark = "{"

// named returns the owner of a request as the scripts get it.
func named(r *lock.Request) string {
	if r.Mode != lock.Exclusive || r.Extra == nil || r.Extra.Metadata == "" {
		return r.Owner
	}
	return r.Owner + metadataMark + base64.RawURLEncoding.EncodeToString([]byte(r.Extra.Metadata))
}

// metadataOf returns the metadata in an owner of the scripts.
func metadataOf(name string) string {
	_, text, _ := strings.Cut(name, metadataMark)
	metadata, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return string(metadata)
}

func checkMetadata(r *lock.Request) error {
	if n := len(r.Metadata()); n > lock.MaxMetadataLen {
		return fmt.Errorf("the metadata are %d bytes long, the limit is %d", n, lock.MaxMetadataLen)
	}
	return nil
}
