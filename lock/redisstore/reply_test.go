package redisstore

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

func list(items ...any) []any { return items }

func TestRepliesOfAcquire(t *testing.T) {
	for _, good := range []struct {
		reply any
		want  acquired
	}{
		{list(int64(-1)), acquired{verdict: refused}},
		{list(int64(1), "17"), acquired{verdict: granted, token: 17}},
		{list(int64(1), "9007199254740991"), acquired{verdict: granted, token: maxToken}},
		{list(int64(0), "17", int64(2500), int64(1)), acquired{verdict: taken, token: 17, expiresIn: 2500 * time.Millisecond, head: true}},
		{list(int64(0), "17", int64(-1), int64(0)), acquired{verdict: taken, token: 17}},
	} {
		got, err := parseAcquired(good.reply)
		require.NoError(t, err)
		assert.Equal(t, good.want, got)
	}
	for _, bad := range []any{
		nil, int64(1), "1", "OK", "17", true, 1.5, errors.New("x"),
		map[any]any{},
		list(),
		list(nil), list("1", "17"), list(1.0, "17"), list(int64(2), "17"), list(int64(-2)), list(int64(math.MaxInt64), "17"), list(int64(math.MinInt64)),
		list(int64(-1), "17"), list(int64(1)), list(int64(1), "17", int64(0)), list(list(int64(1), "17")),
		list(int64(1), nil), list(int64(1), int64(17)), list(int64(1), 17.0), list(int64(1), "0"), list(int64(1), "017"), list(int64(1), ""), list(int64(1), "x"), list(int64(1), "-17"),
		list(int64(1), "+17"), list(int64(1), " 17"), list(int64(1), "1_7"), list(int64(1), "1e3"), list(int64(1), "0x11"), list(int64(1), "17.0"),
		list(int64(1), "9007199254740992"), list(int64(1), "18446744073709551616"),
		list(int64(0), "17"), list(int64(0), "17", int64(1)), list(int64(0), "17", "1", int64(0)), list(int64(0), "x", int64(1), int64(0)),
		list(int64(0), "17", int64(1), int64(2)), list(int64(0), "17", int64(1), nil), list(int64(0), "17", int64(math.MaxInt64), int64(0)),
		list(int64(0), "17", int64(1), int64(0), int64(0)),
	} {
		got, err := parseAcquired(bad)
		require.Error(t, err, "%#v", bad)
		assert.Zero(t, got, "%#v", bad)
	}
}

func TestRepliesThatAreNumbers(t *testing.T) {
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

func TestRepliesOfRenew(t *testing.T) {
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

func TestRepliesOfInspect(t *testing.T) {
	for value, metadata := range map[string]string{"a b:1 17": "", "a:1{YnkgYg 17": "by b", "a:1{* 17": ""} {
		got, err := parseInfo(list(value, int64(2000), int64(3), list("x"), "18"))
		require.NoError(t, err)
		holder := lock.Holder{Token: 17, ExpiresIn: 2 * time.Second, Metadata: metadata}
		assert.Equal(t, lock.Info{Holders: []lock.Holder{holder}, Held: 1, Waiting: 3, Token: 18}, got)
	}
	got, err := parseInfo(list("owner:1 17", int64(0), int64(0), list(), nil))
	require.NoError(t, err)
	assert.Equal(t, time.Millisecond, got.Holders[0].ExpiresIn, "of which a part is left")
	for _, foreign := range []string{"", "17", "hello", "a b", "a -1", "a 17 "} {
		_, err := parseInfo(list(foreign, int64(2000), int64(0), list(), nil))
		require.ErrorIs(t, err, lock.ErrWrongType, "%q", foreign)
	}
	for _, bad := range []any{
		nil, "x", list(), list(nil, int64(-2), int64(0), list()), list(nil, int64(-2), nil, list(), nil), list(nil, int64(-2), int64(-1), list(), nil),
		list("a 17", nil, int64(0), list(), nil), list("a 17", int64(1), int64(0), list(), "x"), list("a 17", int64(1), int64(0), list(), int64(18)),
	} {
		_, err := parseInfo(bad)
		require.Error(t, err, "%#v", bad)
	}
}

func TestAnUnexpectedReplyIsNotShown(t *testing.T) {
	secretless(t, unexpected("the owner"), "the owner")
	secretless(t, unexpected(list("the owner")), "the owner")
}
