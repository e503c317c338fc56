package redisconn

import (
	"io"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

func TestCleanKeepsTheKindOfAnError(t *testing.T) {
	s := secrets{password: "lock"} // a common word, which texts of errors contain
	assert.ErrorIs(t, s.clean(redis.ErrNoScript), redis.ErrNoScript)
	assert.ErrorIs(t, s.clean(io.EOF, "owner", ""), io.EOF)
	assert.NotErrorIs(t, s.clean(redis.Nil), redis.Nil, "every script returns a value")
}
