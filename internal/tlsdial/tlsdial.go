// Package tlsdial distinguishes a Redis server without TLS from one that does not answer.
package tlsdial

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Func is a Dialer of redis.Options.
type Func = func(ctx context.Context, network, addr string) (net.Conn, error)

// NoTLSError is the error of a dial with TLS to a server that speaks the protocol of Redis without it.
type NoTLSError struct{ Addr string }

func (e NoTLSError) Error() string {
	return fmt.Sprintf("the server at %s does not speak TLS (its URL begins with redis://, not with rediss://)", e.Addr)
}

const (
	patience = time.Second // for a handshake; then the server is asked without TLS
	asking   = 2 * time.Second
)

// Dialer returns dial, which speaks TLS, with another error for a server without TLS. Such a server waits for the end of a
// line, which a TLS handshake does not have, and stays silent. A dial that takes longer than a second is therefore accompanied
// by a connection without TLS, over which a PING is sent, and no secret. The dial itself may end later than the returned
// function: that of go-redis does not end with its ctx. If dial reaches another server than the one at the address, such as
// through a tunnel, the error may be about the wrong one.
func Dialer(dial Func) Func {
	type result struct {
		conn net.Conn
		err  error
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		dialed := make(chan result, 1)
		go func() { // a function of the user, whose fault must not end the process
			r := result{err: errors.New("the Dialer called runtime.Goexit")}
			defer func() {
				if v := recover(); v != nil {
					r.err = fmt.Errorf("the Dialer panicked: %v", v)
				}
				dialed <- r
			}()
			r.conn, r.err = dial(ctx, network, addr)
		}()
		asked := make(chan bool, 1)
		ask := time.AfterFunc(patience, func() { asked <- answersInPlain(ctx, network, addr) })
		defer ask.Stop()
		for {
			select {
			case r := <-dialed:
				return r.conn, r.err
			case plain := <-asked:
				if !plain {
					continue
				}
				go func() {
					if r := <-dialed; r.err == nil && r.conn != nil {
						_ = r.conn.Close()
					}
				}()
				return nil, NoTLSError{addr}
			}
		}
	}
}

// answersInPlain reports whether the server answers a PING without TLS. A refusal is an answer.
func answersInPlain(ctx context.Context, network, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && (line[0] == '+' || line[0] == '-')
}
