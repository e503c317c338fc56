// The payment service: charges that take effect once.

package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// payments stands for a payment service that takes idempotency keys: a charge whose key it knows has
// no effect and gets the answer of the first one. The keys are the numbers of the orders.
type payments interface {
	// charge charges an order, and reports whether it was charged before.
	charge(ctx context.Context, order, cents int) (again bool, err error)
}

// memory is a payment service in the memory of the process.
type memory struct {
	mu     sync.Mutex // guards orders
	orders map[int]int
}

func (m *memory) charge(_ context.Context, order, cents int) (again bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, again = m.orders[order]; !again {
		m.orders[order] = cents
	}
	return again, nil
}

// server is a payment service that survives the processes: a hash on a Redis server.
type server struct {
	rdb  *redis.Client
	name string // of the hash
}

func (s *server) charge(ctx context.Context, order, cents int) (again bool, err error) {
	first, err := s.rdb.HSetNX(ctx, s.name, strconv.Itoa(order), cents).Result()
	return !first, err
}

// slow is a payment service whose answers take some time after the effect.
type slow struct {
	payments
	pause time.Duration
}

func (s slow) charge(ctx context.Context, order, cents int) (again bool, err error) {
	again, err = s.payments.charge(ctx, order, cents)
	select {
	case <-time.After(s.pause):
		return again, err
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
