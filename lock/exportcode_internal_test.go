package lock

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// exportable returns leases of all modes, with an owner of a client.
func exportable() []driver.Lease {
	c := &core{id: "ABCDEFGHIJKLM"}
	request := func(mode driver.Mode, attrs *driver.Attrs) driver.Lease {
		return driver.Lease{Request: driver.Request{Key: "k\x00\xff", Owner: c.owner(), Mode: mode, Attrs: attrs}, Token: 1 << 52}
	}
	many := make([]string, MaxMembers)
	for i := range many {
		many[i] = fmt.Sprintf("%05d%s", i, strings.Repeat("m", MaxMemberBytes/MaxMembers-5))
	}
	return []driver.Lease{
		request(driver.Exclusive, nil),
		request(driver.Exclusive, &driver.Attrs{Metadata: strings.Repeat("m", MaxMetadataLen)}),
		request(driver.Read, nil),
		request(driver.Write, &driver.Attrs{Metadata: "\n"}),
		request(driver.Permit, &driver.Attrs{Limit: 1}),
		request(driver.Permit, &driver.Attrs{Limit: MaxPermits, Permits: MaxPermits}),
		request(driver.Members, &driver.Attrs{Members: []string{"\x00", "a", "b"}}),
		request(driver.Members, &driver.Attrs{Members: many, Metadata: "many"}),
	}
}

func TestAnExportedLeaseIsTheSame(t *testing.T) {
	for _, want := range exportable() {
		for _, state := range [][]byte{{}, []byte("state"), make([]byte, driver.MaxStateLen)} {
			for _, rest := range []time.Duration{0, time.Millisecond, MaxTTL} {
				want.Unanswered = rest > 0
				e := exportedLease{lease: want, state: state}
				if canHaveMinHold(want.Mode) {
					e.rest = rest
				}
				text := e.encode()
				assert.LessOrEqual(t, len(text), maxExport)
				got, err := decodeExported(text)
				require.NoError(t, err)
				assert.True(t, reflect.DeepEqual(&e, got), "%v", want)
				assert.Equal(t, text, got.encode())
			}
		}
	}
	e := exportedLease{lease: exportable()[0]}
	assert.LessOrEqual(t, len(e.encode()), 200)
}

func TestADamagedExportIsRefused(t *testing.T) {
	e := exportedLease{lease: exportable()[1], state: []byte("state")}
	text := e.encode()
	for i := range len(text) {
		for _, bad := range []string{text[:i], text[i+1:], text[:i] + "A" + text[i:], text[:i] + string(text[i]^1) + text[i+1:], text[:i] + text[i+1:]} {
			if bad == text {
				continue
			}
			got, err := decodeExported(bad)
			require.ErrorIs(t, err, ErrBadExport, "%d", i)
			assert.Nil(t, got)
		}
	}
	for _, bad := range []string{"", text + text, text + "\n", " " + text, strings.Repeat("x", 10), exportPrefix, exportPrefix + strings.Repeat("A", maxExport)} {
		_, err := decodeExported(bad)
		require.ErrorIs(t, err, ErrBadExport)
	}
}

// A string whose digest is right is refused if no client can have made it.
func TestAnExportThatNoClientMakesIsRefused(t *testing.T) {
	changed := func(f func(e *exportedLease)) string {
		e := &exportedLease{lease: exportable()[6]}
		attrs := *e.lease.Attrs
		attrs.Members = slices.Clone(attrs.Members)
		e.lease.Attrs = &attrs
		f(e)
		return e.encode()
	}
	change := func(f func(l *driver.Lease)) string { return changed(func(e *exportedLease) { f(&e.lease) }) }
	for name, text := range map[string]string{
		"no key":           change(func(l *driver.Lease) { l.Key = "" }),
		"long key":         change(func(l *driver.Lease) { l.Key = strings.Repeat("k", MaxKeyLen+1) }),
		"brace key":        change(func(l *driver.Lease) { l.Key = "}" }),
		"no owner":         change(func(l *driver.Lease) { l.Owner = "" }),
		"short owner":      change(func(l *driver.Lease) { l.Owner = l.Owner[1:] }),
		"brace owner":      change(func(l *driver.Lease) { l.Owner = l.Owner[:20] + "{" + l.Owner[21:] }),
		"owner with space": change(func(l *driver.Lease) { l.Owner = l.Owner[:20] + " " + l.Owner[21:] }),
		"owner no colon":   change(func(l *driver.Lease) { l.Owner = strings.ReplaceAll(l.Owner, ":", "a") }),
		"mode":             change(func(l *driver.Lease) { l.Mode = driver.Members + 1 }),
		"mode of others":   change(func(l *driver.Lease) { l.Mode = driver.Exclusive }),
		"no members":       change(func(l *driver.Lease) { l.Attrs.Members = nil }),
		"equal members":    change(func(l *driver.Lease) { l.Attrs.Members[1] = l.Attrs.Members[0] }),
		"unsorted":         change(func(l *driver.Lease) { l.Attrs.Members[0] = "z" }),
		"empty member":     change(func(l *driver.Lease) { l.Attrs.Members[0] = "" }),
		"long member":      change(func(l *driver.Lease) { l.Attrs.Members[2] = "z" + strings.Repeat("k", MaxKeyLen) }),
		"limit":            change(func(l *driver.Lease) { l.Attrs.Limit = 1 }),
		"metadata":         change(func(l *driver.Lease) { l.Attrs.Metadata = strings.Repeat("m", MaxMetadataLen+1) }),
		"permits":          change(func(l *driver.Lease) { l.Mode, l.Attrs = driver.Permit, &driver.Attrs{Limit: 1, Permits: 2} }),
		"no limit":         change(func(l *driver.Lease) { l.Mode, l.Attrs = driver.Permit, &driver.Attrs{} }),
		"high limit":       change(func(l *driver.Lease) { l.Mode, l.Attrs = driver.Permit, &driver.Attrs{Limit: MaxPermits + 1} }),
		"long MinHold":     changed(func(e *exportedLease) { e.rest = MaxTTL + time.Millisecond }),
		"MinHold of a reader": changed(func(e *exportedLease) {
			e.lease.Mode, e.lease.Attrs, e.rest = driver.Read, nil, time.Millisecond
		}),
		"long state": changed(func(e *exportedLease) { e.state = make([]byte, driver.MaxStateLen+1) }),
	} {
		_, err := decodeExported(text)
		require.ErrorIs(t, err, ErrBadExport, name)
	}
	_, err := decodeExported(changed(func(*exportedLease) {}))
	require.NoError(t, err)
}

// FuzzDecodeExported: any bytes with the right digest are refused, or are what encode returns.
func FuzzDecodeExported(f *testing.F) {
	for _, l := range exportable()[:7] {
		e := exportedLease{lease: l, state: []byte("s")}
		raw, err := base64.RawURLEncoding.DecodeString(e.encode()[len(exportPrefix):])
		require.NoError(f, err)
		f.Add(raw[:len(raw)-exportSum])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text := exportPrefix + base64.RawURLEncoding.EncodeToString(append(slices.Clone(b), exportDigest(b)...))
		e, err := decodeExported(text)
		if err == nil {
			assert.Equal(t, text, e.encode())
		} else {
			require.ErrorIs(t, err, ErrBadExport)
		}
	})
}
