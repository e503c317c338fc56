package lock

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// exportable returns leases with an owner of a client.
func exportable() []driver.Lease {
	c := &core{id: "ABCDEFGHIJKLM"}
	request := driver.Request{Key: "k\x00\xff", Owner: c.owner()}
	long := request
	long.Key, long.Attrs = strings.Repeat("k", MaxKeyLen), &driver.Attrs{Metadata: strings.Repeat("m", MaxMetadataLen)}
	return []driver.Lease{{Request: request, Token: 1 << 52}, {Request: long, Unanswered: true}}
}

func TestAnExportedLeaseIsTheSame(t *testing.T) {
	for _, want := range exportable() {
		text := encodeExported(want)
		assert.LessOrEqual(t, len(text), maxExport)
		got, err := decodeExported(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	assert.LessOrEqual(t, len(encodeExported(exportable()[0])), 200)
}

func TestADamagedExportIsRefused(t *testing.T) {
	text := encodeExported(exportable()[1])
	for i := range len(text) {
		for _, bad := range []string{text[:i], text[i+1:], text[:i] + "A" + text[i:], text[:i] + string(text[i]^1) + text[i+1:], text[:i] + text[i+1:]} {
			if bad == text {
				continue
			}
			got, err := decodeExported(bad)
			require.ErrorIs(t, err, ErrBadExport, "%d", i)
			assert.Zero(t, got)
		}
	}
	for _, bad := range []string{"", text + text, text + "\n", " " + text, strings.Repeat("x", 10), exportPrefix, exportPrefix + strings.Repeat("A", maxExport)} {
		_, err := decodeExported(bad)
		require.ErrorIs(t, err, ErrBadExport)
	}
}

// A string whose digest is right is refused if no client can have made it.
func TestAnExportThatNoClientMakesIsRefused(t *testing.T) {
	change := func(f func(l *driver.Lease)) string {
		l := exportable()[0]
		f(&l)
		return encodeExported(l)
	}
	for name, text := range map[string]string{
		"no key":           change(func(l *driver.Lease) { l.Key = "" }),
		"long key":         change(func(l *driver.Lease) { l.Key = strings.Repeat("k", MaxKeyLen+1) }),
		"brace key":        change(func(l *driver.Lease) { l.Key = "}" }),
		"no owner":         change(func(l *driver.Lease) { l.Owner = "" }),
		"short owner":      change(func(l *driver.Lease) { l.Owner = l.Owner[1:] }),
		"brace owner":      change(func(l *driver.Lease) { l.Owner = l.Owner[:20] + "{" + l.Owner[21:] }),
		"owner with space": change(func(l *driver.Lease) { l.Owner = l.Owner[:20] + " " + l.Owner[21:] }),
		"owner no colon":   change(func(l *driver.Lease) { l.Owner = strings.ReplaceAll(l.Owner, ":", "a") }),
		"metadata":         change(func(l *driver.Lease) { l.Attrs = &driver.Attrs{Metadata: strings.Repeat("m", MaxMetadataLen+1)} }),
	} {
		_, err := decodeExported(text)
		require.ErrorIs(t, err, ErrBadExport, name)
	}
}

// FuzzDecodeExported: any bytes with the right digest are refused, or are what encodeExported returns.
func FuzzDecodeExported(f *testing.F) {
	f.Add([]byte{})
	for _, l := range exportable() {
		raw, err := base64.RawURLEncoding.DecodeString(encodeExported(l)[len(exportPrefix):])
		require.NoError(f, err)
		f.Add(raw[:len(raw)-exportSum])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text := exportPrefix + base64.RawURLEncoding.EncodeToString(append(slices.Clone(b), exportDigest(b)...))
		l, err := decodeExported(text)
		if err == nil {
			assert.Equal(t, text, encodeExported(l))
		} else {
			require.ErrorIs(t, err, ErrBadExport)
		}
	})
}
