package redisstore

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

func list(items ...any) []any { return items }

func TestParseAcquireReplies(t *testing.T) {
	for _, good := range []struct {
		reply any
		want  acquired
	}{
		{list(int64(-1)), acquired{verdict: refused}},
		{list(int64(1), "17"), acquired{verdict: granted, token: 17}},
		{"17", acquired{verdict: granted, token: 17}},
		{"9007199254740991", acquired{verdict: granted, token: maxToken}},
		{list(int64(1), "17", ""), acquired{verdict: granted, token: 17, saved: &driver.Saved{}}},
		{list(int64(1), "17", "16 3 a b"), acquired{verdict: granted, token: 17, saved: &driver.Saved{Token: 16, Data: []byte("a b")}}},
		{list(int64(1), "17", "16 3 "), acquired{verdict: granted, token: 17, saved: &driver.Saved{Token: 16, Data: []byte{}}}},
		{list(int64(0), "17", int64(2500), int64(1)), acquired{verdict: taken, token: 17, expiresIn: 2500 * time.Millisecond, head: true}},
		{list(int64(0), "17", int64(-1), int64(0)), acquired{verdict: taken, token: 17}},
	} {
		stateful := good.want.saved != nil
		got, err := parseAcquired(stateful, redisconn.Reply{Value: good.reply})
		require.NoError(t, err)
		assert.Equal(t, good.want, got)
		if good.want.verdict == granted {
			_, err = parseAcquired(!stateful, redisconn.Reply{Value: good.reply})
			require.Error(t, err)
		}
	}
	for _, bad := range []any{
		nil, int64(1), "", "OK", "0", "017", "x", "-17", "+17", " 17", "1_7", "1e3", "0x11", "17.0", true, 1.5, errors.New("x"),
		map[any]any{},
		list(),
		list(nil), list("1", "17"), list(1.0, "17"), list(int64(2), "17"), list(int64(-2)), list(int64(math.MaxInt64), "17"), list(int64(math.MinInt64)),
		list(int64(-1), "17"), list(int64(1)), list(int64(1), "17", int64(0)), list(list(int64(1), "17")),
		list("17"), list(int64(1), nil), list(int64(1), int64(17)), list(int64(1), 17.0), list(int64(1), "017"), list(int64(1), ""), list(int64(1), "-17"),
		list(int64(1), "17", nil), list(int64(1), "17", "x"), list(int64(1), "17", "16"), list(int64(1), "17", "16 3"), list(int64(1), "17", "016 3 a"),
		list(int64(1), "x", "16 3 a"), list(int64(1), "17", "", ""),
		"9007199254740992", "18446744073709551616", list(int64(1), "9007199254740992"),
		list(int64(0), "17"), list(int64(0), "17", int64(1)), list(int64(0), "17", "1", int64(0)), list(int64(0), "x", int64(1), int64(0)),
		list(int64(0), "17", int64(1), int64(2)), list(int64(0), "17", int64(1), nil), list(int64(0), "17", int64(math.MaxInt64), int64(0)),
		list(int64(0), "17", int64(1), int64(0), int64(0)),
	} {
		for _, stateful := range []bool{false, true} {
			got, err := parseAcquired(stateful, redisconn.Reply{Value: bad})
			require.Error(t, err, "%#v", bad)
			assert.Zero(t, got, "%#v", bad)
		}
	}
}

func TestParseNumberReplies(t *testing.T) {
	for code := range int64(3) {
		got, err := parseCode(code, 2)
		require.NoError(t, err)
		assert.Equal(t, code, got)
	}
	for _, bad := range []any{nil, int64(3), int64(-1), int64(math.MaxInt64), "1", 1, 1.0, true, list(int64(1))} {
		_, err := parseCode(bad, 2)
		require.Error(t, err, "%#v", bad)
	}
}

func TestParseRenewReplies(t *testing.T) {
	for _, good := range []any{list(), list(int64(1)), list(int64(3)), list(int64(1), int64(2), int64(3))} {
		got, err := parseLost(good, 3)
		require.NoError(t, err)
		assert.Equal(t, good, got)
	}
	for _, bad := range []any{
		nil, int64(0), "", true, list(nil), list("1"), list(int64(0)), list(int64(4)), list(int64(-1)), list(int64(math.MaxInt64)),
		list(int64(1), int64(1)), list(int64(2), int64(1)), list(int64(1), int64(2), int64(3), int64(3)), list(1.0), list(list(int64(1))),
	} {
		_, err := parseLost(bad, 3)
		require.Error(t, err, "%#v", bad)
	}
}

func TestParseInspectReplies(t *testing.T) {
	for value, metadata := range map[string]string{"a:1 17": "", "a:1{YnkgYg 17": "by b", "a:1{* 17": ""} {
		got, err := parseInfo(list(value, int64(2000), int64(3), list("x:1", "y:1{YnkgYg"), "18", nil, list(int64(0), int64(12_000))))
		require.NoError(t, err)
		holder := driver.Holder{Token: 17, ExpiresIn: 2 * time.Second, Metadata: metadata, Client: driver.ClientName("a:")}
		places := []driver.Place{{Client: driver.ClientName("x:")}, {Metadata: "by b", Client: driver.ClientName("y:"), Waited: 12 * time.Second}}
		assert.Equal(t, driver.Info{Holders: []driver.Holder{holder}, Held: 1, Waiting: 3, Token: 18, Places: places}, got)
	}
	for text, metadata := range map[string]string{"17 later": "later", "17 ": "", "17  a b": " a b", "16 former": "first", "17": "first", "": "first"} {
		got, err := parseInfo(list("a:1{Zmlyc3Q 17", int64(2000), int64(0), list(), nil, text, list()))
		require.NoError(t, err)
		assert.Equal(t, metadata, got.Holders[0].Metadata, "%q", text)
	}
	got, err := parseInfo(list("owner:1 17", int64(0), int64(0), list(), nil, nil, list()))
	require.NoError(t, err)
	assert.Equal(t, time.Millisecond, got.Holders[0].ExpiresIn, "the rest of the lease is rounded up to 1 ms")
	for _, foreign := range []string{"", "17", "hello", "a b", "a -1", "a 17 "} {
		_, err := parseInfo(list(foreign, int64(2000), int64(0), list(), nil, nil, list()))
		require.ErrorIs(t, err, driver.ErrWrongType, "%q", foreign)
	}
	for _, bad := range []any{
		nil, "x", list(), list(nil, int64(-2), int64(0), list(), nil), list(nil, int64(-2), nil, list(), nil, nil, list()),
		list(nil, int64(-2), int64(-1), list(), nil, nil, list()), list(nil, int64(-2), int64(0), nil, nil, nil, list()),
		list(nil, int64(-2), int64(0), list(int64(1)), nil, nil, list(int64(1))), list(nil, int64(-2), int64(1), list("a"), nil, nil, list()),
		list(nil, int64(-2), int64(1), list("a"), nil, nil, list("1")),
		list("a 17", nil, int64(0), list(), nil, nil, list()),
		list("a 17", int64(1), int64(0), list(), "x", nil, list()), list("a 17", int64(1), int64(0), list(), int64(18), nil, list()),
	} {
		_, err := parseInfo(bad)
		require.Error(t, err, "%#v", bad)
	}
}

func TestParseForceSharedReplies(t *testing.T) {
	done, cursor, err := parseForced(list(int64(3), ""))
	require.NoError(t, err)
	assert.EqualValues(t, 3, done)
	assert.Empty(t, cursor)
	_, cursor, err = parseForced(list(int64(0), "18446744073709551615"))
	require.NoError(t, err)
	assert.Equal(t, "18446744073709551615", cursor)
	for _, bad := range []any{
		nil, int64(1), "", list(), list(int64(1)), list(int64(1), "", ""), list("1", ""), list(int64(-1), ""), list(nil, ""),
		list(int64(1), nil), list(int64(1), int64(0)), list(int64(1), "x"), list(int64(1), "-1"), list(int64(1), " 1"),
	} {
		_, _, err := parseForced(bad)
		require.Error(t, err, "%#v", bad)
	}
}

func TestReplyToMembersThatWereNotSent(t *testing.T) {
	assert.True(t, isUnsent(list(int64(2))))
	for _, other := range []any{nil, int64(2), list(), list(int64(1)), list("2"), list(int64(2), "17")} {
		assert.False(t, isUnsent(other), "%#v", other)
	}
	_, err := parseAcquired(false, redisconn.Reply{Value: list(int64(2))})
	require.Error(t, err, "the reply is invalid if the request has sent the members")
}
