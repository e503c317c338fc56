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
	keep := time.UnixMilli(1_700_000_000_123)
	return []driver.Lease{
		request(driver.Exclusive, nil),
		request(driver.Exclusive, &driver.Attrs{Metadata: strings.Repeat("m", MaxMetadataLen)}),
		request(driver.Exclusive, &driver.Attrs{KeepUntil: keep}),
		request(driver.Read, nil),
		request(driver.Write, &driver.Attrs{Metadata: "\n"}),
		request(driver.Permit, &driver.Attrs{Limit: 1}),
		request(driver.Permit, &driver.Attrs{Limit: MaxPermits, Permits: MaxPermits}),
		request(driver.Members, &driver.Attrs{Members: []string{"\x00", "a", "b"}}),
		request(driver.Members, &driver.Attrs{Members: many, Metadata: "many", KeepUntil: keep}),
	}
}

func TestAnExportedLeaseIsTheSame(t *testing.T) {
	for _, want := range exportable() {
		for _, state := range [][]byte{{}, []byte("state"), make([]byte, driver.MaxStateLen)} {
			for _, unanswered := range []bool{false, true} {
				want.Unanswered = unanswered
				text := encodeLease(&want, state)
				assert.LessOrEqual(t, len(text), maxExport)
				got, gotState, err := decodeLease(text)
				require.NoError(t, err)
				assert.True(t, reflect.DeepEqual(want, got), "%v", want)
				assert.Equal(t, state, gotState)
				assert.Equal(t, text, encodeLease(&got, gotState))
			}
		}
	}
	l := exportable()[0]
	assert.LessOrEqual(t, len(encodeLease(&l, nil)), 200)
}

func TestADamagedExportIsRefused(t *testing.T) {
	l := exportable()[1]
	text := encodeLease(&l, []byte("state"))
	for i := range len(text) {
		for _, bad := range []string{text[:i], text[i+1:], text[:i] + "A" + text[i:], text[:i] + string(text[i]^1) + text[i+1:], text[:i] + text[i+1:]} {
			if bad == text {
				continue
			}
			got, state, err := decodeLease(bad)
			require.ErrorIs(t, err, ErrBadExport, "%d", i)
			assert.Zero(t, got)
			assert.Nil(t, state)
		}
	}
	for _, bad := range []string{"", text + text, text + "\n", " " + text, strings.Repeat("x", 10), exportPrefix, exportPrefix + strings.Repeat("A", maxExport)} {
		_, _, err := decodeLease(bad)
		require.ErrorIs(t, err, ErrBadExport)
	}
}

// A string whose digest is right is refused if no client can have made it.
func TestAnExportThatNoClientMakesIsRefused(t *testing.T) {
	change := func(f func(l *driver.Lease)) string {
		l := exportable()[7]
		attrs := *l.Attrs
		attrs.Members = slices.Clone(attrs.Members)
		l.Attrs = &attrs
		f(&l)
		return encodeLease(&l, nil)
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
		"late keep":        change(func(l *driver.Lease) { l.Attrs.KeepUntil = time.UnixMilli(maxInstant + 1) }),
	} {
		_, _, err := decodeLease(text)
		require.ErrorIs(t, err, ErrBadExport, name)
	}
	l := exportable()[0]
	_, _, err := decodeLease(encodeLease(&l, make([]byte, driver.MaxStateLen+1)))
	require.ErrorIs(t, err, ErrBadExport)
}

// FuzzDecodeLease: any bytes with the right digest are refused, or are what encodeLease returns.
func FuzzDecodeLease(f *testing.F) {
	for _, l := range exportable()[:8] {
		raw, err := base64.RawURLEncoding.DecodeString(encodeLease(&l, []byte("s"))[len(exportPrefix):])
		require.NoError(f, err)
		f.Add(raw[:len(raw)-exportSum])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text := exportPrefix + base64.RawURLEncoding.EncodeToString(append(slices.Clone(b), exportDigest(b)...))
		l, state, err := decodeLease(text)
		if err == nil {
			assert.Equal(t, text, encodeLease(&l, state))
		} else {
			require.ErrorIs(t, err, ErrBadExport)
		}
	})
}
