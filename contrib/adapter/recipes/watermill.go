// Messages of Watermill.

package recipes

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/leasewheel/leasewheel/lock"
)

// OneAtATime is middleware of Watermill that handles one message per key at a time, in all
// processes. A message waits for the lock.
func OneAtATime(client *lock.Client, key func(*message.Message) string) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(m *message.Message) (produced []*message.Message, err error) {
			before := m.Context()
			defer m.SetContext(before)
			err = lock.Do(before, client.Mutex(key(m)), func(ctx context.Context, _ *lock.Held) error {
				m.SetContext(ctx) // ends if the lock is lost
				produced, err = next(m)
				return err
			})
			return produced, err // an error, also ErrLost, is a Nack: the message comes again
		}
	}
}
