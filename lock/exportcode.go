// The string of Export: its format and its check.

package lock

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// The string of Held.Export is exportPrefix and then, in base64:
//
//	bytes      content
//	1          flags: 1 = Unanswered
//	varint     token
//	text       key, owner, metadata: each a varint with its length, and its bytes
//	8          the first bytes of the SHA-256 of exportPrefix and all bytes above
//
// The digest finds strings that were cut off or changed by mistake. It is no signature: whoever
// can write to the store can make a string, too.
const (
	exportPrefix = "lwlease1."
	exportSum    = 8
	maxExport    = 8 << 10
)

// encodeExported returns the string for an exclusive lease.
func encodeExported(l driver.Lease) string {
	b := []byte{0}
	if l.Unanswered {
		b[0] = 1
	}
	b = binary.AppendUvarint(b, l.Token)
	for _, text := range []string{l.Key, l.Owner, l.Metadata()} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return exportPrefix + base64.RawURLEncoding.EncodeToString(append(b, exportDigest(b)...))
}

func exportDigest(b []byte) []byte {
	sum := sha256.Sum256(append([]byte(exportPrefix), b...))
	return sum[:exportSum]
}

// decodeExported reads a string of encodeExported. It accepts only what encodeExported returns for
// the lease of a client. Its errors do not show the string.
func decodeExported(text string) (driver.Lease, error) {
	encoded, _ := strings.CutPrefix(text, exportPrefix)
	rest, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(rest) == 0 || len(text) > maxExport {
		return driver.Lease{}, ErrBadExport
	}
	l := driver.Lease{}
	l.Unanswered, rest = rest[0] == 1, rest[1:]
	number := func() uint64 {
		n, size := binary.Uvarint(rest)
		rest = rest[max(size, 0):]
		return n
	}
	part := func() string {
		n := min(number(), uint64(len(rest)))
		of := rest[:n]
		rest = rest[n:]
		return string(of)
	}
	l.Token, l.Key, l.Owner = number(), part(), part()
	if metadata := part(); metadata != "" {
		l.Attrs = &driver.Attrs{Metadata: metadata}
	}
	if encodeExported(l) != text || !isOwner(l.Owner) || len(l.Metadata()) > MaxMetadataLen {
		return driver.Lease{}, ErrBadExport
	}
	if err := checkKey(l.Key); err != nil {
		return driver.Lease{}, fmt.Errorf("%w: %w", ErrBadExport, basic.Unprefixed(err))
	}
	return l, nil
}

// isOwner reports whether an owner has the form of those of core.owner.
func isOwner(owner string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	client, secret, _ := strings.Cut(owner, ":")
	return len(client) == idLen && len(secret) == secretLen && strings.Trim(owner, letters) == ":"
}

// secretLen is the number of letters after the colon in the owners of core.owner.
const secretLen = (16*8 + 5) / 6
