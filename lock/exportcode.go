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
		b = appendText(b, text)
	}
	b = append(b, exportDigest(b)...)
	return exportPrefix + base64.RawURLEncoding.EncodeToString(b)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func exportDigest(b []byte) []byte {
	h := sha256.New()
	h.Write([]byte(exportPrefix))
	h.Write(b)
	return h.Sum(nil)[:exportSum]
}

// decodeExported reads a string of encodeExported. It accepts only what encodeExported returns for
// the lease of a client. Its errors do not show the string.
func decodeExported(text string) (driver.Lease, error) {
	encoded, ok := strings.CutPrefix(text, exportPrefix)
	if !ok || len(text) > maxExport || strings.ContainsAny(encoded, "\r\n") { // base64 skips line ends
		return driver.Lease{}, ErrBadExport
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(b) <= exportSum || string(exportDigest(b[:len(b)-exportSum])) != string(b[len(b)-exportSum:]) {
		return driver.Lease{}, ErrBadExport
	}
	flags, r := b[0], exportReader{rest: b[1 : len(b)-exportSum]}
	var l driver.Lease
	l.Unanswered = flags == 1
	l.Token = r.number()
	l.Key, l.Owner = r.text(), r.text()
	if metadata := r.text(); metadata != "" {
		l.Attrs = &driver.Attrs{Metadata: metadata}
	}
	if r.err != nil || len(r.rest) > 0 || flags > 1 || !isOwner(l.Owner) || len(l.Metadata()) > MaxMetadataLen {
		return driver.Lease{}, ErrBadExport
	}
	if err := checkKey(l.Key); err != nil {
		return driver.Lease{}, fmt.Errorf("%w: %w", ErrBadExport, basic.Unprefixed(err))
	}
	return l, nil
}

// isOwner reports whether an owner has the form of those of core.owner.
func isOwner(owner string) bool {
	if len(owner) != ownerLen || owner[idLen] != ':' {
		return false
	}
	for i := range len(owner) {
		c := owner[i]
		letter := 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
		if !letter && i != idLen {
			return false
		}
	}
	return true
}

// ownerLen is the number of bytes of the owners of core.owner.
const ownerLen = idLen + 1 + (16*8+5)/6

// exportReader reads the bytes of an exported lease. Its err is set after the first failure.
type exportReader struct {
	rest []byte
	err  error
}

func (r *exportReader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || size != len(binary.AppendUvarint(nil, n)) { // there is one form of each number
		r.rest, r.err = nil, ErrBadExport
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *exportReader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.rest, r.err = nil, ErrBadExport
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}
