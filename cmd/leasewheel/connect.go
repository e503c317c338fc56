// The URL of the server, and clients for it.

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/tlsdial"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// Environment variables that the program reads, and that it sets for a command.
const (
	urlEnv    = "LEASEWHEEL_URL"
	prefixEnv = "LEASEWHEEL_PREFIX"
	handleEnv = "LEASEWHEEL_HANDLE"

	keyEnv   = "LEASEWHEEL_KEY"
	tokenEnv = "LEASEWHEEL_TOKEN"
)

const (
	defaultURL   = "redis://localhost:6379/0"
	askTimeout   = 3 * time.Second  // to find out whether the server is a node of a cluster
	tryTimeout   = 3 * time.Second  // of -nonblock, for the server to answer
	closeTimeout = 4 * time.Second  // to release what is held
	leaveTimeout = time.Second      // to leave the queue, or to take back a request without an answer
	readTimeout  = 30 * time.Second // of a command that shows or checks something
)

// connection is the server of a command, from its flags.
type connection struct {
	url     string
	prefix  string
	verbose bool
}

// define defines the flags.
func (o *connection) define(f *flag.FlagSet) {
	f.StringVar(&o.url, "url", "", "`URL` of the server; the default is $LEASEWHEEL_URL, or "+defaultURL+".\n"+
		"Others can see flags in the list of processes, so put a password into the variable.")
	f.StringVar(&o.prefix, "prefix", "", "`text` before the names of all keys; the default is $LEASEWHEEL_PREFIX, or lw:")
	f.BoolVar(&o.verbose, "verbose", false, "print the log of the library to stderr")
	alias(f, "v", "verbose")
}

// server is an open store with its client of Redis.
type server struct {
	rdb   redis.UniversalClient
	store *redisstore.Store
}

// open returns the store. The error is a usageError if the URL is bad. It asks the server
// once whether it is a node of a cluster.
func (o *connection) open(ctx context.Context) (*server, error) {
	rdb, err := dial(ctx, firstOf(o.url, os.Getenv(urlEnv), defaultURL))
	if bad := (usageError{}); errors.As(err, &bad) {
		bad.text = fmt.Sprintf("bad URL of the server (-url or %s): %s; leasewheel man has examples", urlEnv, bad.text)
		return nil, bad
	}
	if err != nil {
		return nil, err
	}
	store, err := redisstore.New(rdb, &redisstore.Options{Prefix: firstOf(o.prefix, os.Getenv(prefixEnv))})
	if err != nil {
		_ = rdb.Close()
		return nil, usageError{inFlags(err)}
	}
	return &server{rdb, store}, nil
}

// close closes the store, if it has no lock.Client that does, and the client of Redis.
func (s *server) close() {
	_ = s.store.Close()
	_ = s.rdb.Close()
}

// logger returns the logger of the library.
func (o *connection) logger(std streams) *slog.Logger {
	if !o.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(std.err, nil))
}

// inFlags returns the error of an option as a text that names the flag.
func inFlags(err error) string {
	return strings.NewReplacer("lock: bad TTL: ", "", "lock: ", "", "redisstore: ", "", "Options.TTL", "-ttl", "Options.MinHold", "-min-hold", "Terms.Yields", "-yield",
		"Options.MaxHold", "-max-hold", "Options.Metadata", "-meta", "Options.Prefix", "-prefix", "Terms.", "-").Replace(err.Error())
}

// lockClient is a client of locks with its server.
type lockClient struct {
	*lock.Client
	server *server
}

// client returns a client of locks. The caller closes it with shut.
func (o *connection) client(ctx context.Context, std streams, options lock.Options) (*lockClient, error) {
	s, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	options.Logger = o.logger(std)
	client, err := lock.New(s.store, &options)
	if err != nil {
		s.close()
		return nil, usageError{inFlags(err)}
	}
	return &lockClient{client, s}, nil
}

// shut closes the client. It waits for releases that are not confirmed yet for closeTimeout.
func (c *lockClient) shut() error { return c.shutWithin(closeTimeout) }

// shutWithin is shut with another limit.
func (c *lockClient) shutWithin(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := c.Close(ctx)
	_ = c.server.rdb.Close()
	return err
}

// dial returns a client for a server, a cluster, or the master that Sentinel names. It connects
// only to find out whether a server is a node of a cluster. The error of a bad URL is a usageError.
func dial(ctx context.Context, text string) (redis.UniversalClient, error) {
	text = strings.TrimSpace(text) // a file with a secret ends in a line feed
	switch {
	case strings.HasPrefix(text, "/"):
		text = "unix://" + text
	case !strings.Contains(text, "://"):
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	if problem := urlProblem(text, err); problem != "" {
		return nil, usageError{problem}
	}
	switch query := u.Query(); {
	case query.Has("master_name"):
		var opts *redis.FailoverOptions
		if opts, err = redis.ParseFailoverURL(text); err == nil {
			return redis.NewFailoverClient(opts), nil
		}
	case query.Has("addr"):
		var opts *redis.ClusterOptions
		if opts, err = redis.ParseClusterURL(text); err == nil {
			return redis.NewClusterClient(opts), nil
		}
	default:
		var opts *redis.Options
		if opts, err = redis.ParseURL(text); err == nil {
			return clusterOf(ctx, opts)
		}
	}
	return nil, usageError{urlProblem(text, err)}
}

// urlProblem returns what is wrong with a URL, which a parser has refused if err is not nil. It returns "" for a good one. A character
// that is not escaped in a password makes the password a part of the address or an option, so nothing that may be a part of one
// is quoted.
func urlProblem(text string, err error) string {
	scheme, rest, _ := strings.Cut(text, "://")
	address, path, _ := strings.Cut(rest, "/")
	path, _, _ = strings.Cut(path, "?")
	query := strings.Contains(rest, "?") && strings.LastIndex(rest, "@") > strings.Index(rest, "?")
	var character string
	switch {
	case scheme != "redis" && scheme != "rediss" && scheme != "unix":
		return fmt.Sprintf("it begins with %q: leasewheel uses Redis only, by redis://, rediss:// or unix://", firstOf(word(scheme), "something")+"://")
	case strings.Contains(rest, "#"):
		character = "# %23"
	case scheme != "unix" && strings.Contains(path, "@") && !strings.Contains(address, "?"):
		character = "/ %2F"
	case err == nil:
		return ""
	case errors.As(err, new(url.EscapeError)):
		character = "% %25"
	case query:
		character = "? %3F"
	}
	if character != "" {
		name, code, _ := strings.Cut(character, " ")
		return fmt.Sprintf("it has a %s at a place where none belongs: in a password, %s is written as %s", name, name, code)
	}
	reason := err.Error()
	_, option, _ := strings.Cut(reason, "redis: invalid ")
	switch option = word(option); {
	case strings.Contains(reason, "invalid userinfo"):
		return "the user name or the password has a character that must be written as % and two hexadecimal digits"
	case strings.Contains(reason, "invalid port"):
		return "its port is no number; an IPv6 address is written in brackets"
	case strings.Contains(reason, "invalid control character"):
		return "it has a control character"
	case errors.As(err, new(url.InvalidHostError)):
		return "its host has a character that no host has"
	case strings.Contains(reason, "unexpected option: "):
		return "it has an unknown option: " + strings.TrimPrefix(reason, "redis: unexpected option: ")
	case option == "URL" || option == "database":
		return "only the number of a database may follow the address, as in /0"
	case option != "":
		return fmt.Sprintf("the value of its option %s is wrong", option)
	case strings.Contains(reason, "addr param"):
		return "the value of its option addr is host:port"
	case strings.Contains(reason, "socket path"):
		return "the path of the socket is missing, as in unix:///run/redis.sock"
	}
	return "it cannot be understood"
}

// word returns the name of an option or a scheme at the beginning of a text.
func word(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool {
		return !strings.ContainsRune("_+.-", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if end < 0 {
		return text
	}
	return text[:end]
}

// clusterOf returns a client for the server or, if it is a node of a cluster, for the cluster. A server that does not tell
// counts as a single one. The error is the cause of ctx if it has ended, and that of a server without TLS if the URL asks for it.
func clusterOf(ctx context.Context, opts *redis.Options) (redis.UniversalClient, error) {
	asked, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	once := *opts
	once.MaxRetries, once.DialerRetries, once.ContextTimeoutEnabled = -1, 1, true
	if opts.TLSConfig != nil {
		once.Dialer = tlsdial.Dialer((&tls.Dialer{Config: opts.TLSConfig}).DialContext)
	}
	var info string
	err := whileNot(asked, func() error { // a dial with TLS, and a read, do not end with their ctx
		rdb := redis.NewClient(&once)
		defer func() { _ = rdb.Close() }()
		text, err := rdb.Info(asked, "cluster").Result()
		info = text
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, new(tlsdial.NoTLSError)):
		return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	case err != nil || !strings.Contains(info, "cluster_enabled:1"):
		return redis.NewClient(opts), nil
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{opts.Addr}, Username: opts.Username, Password: opts.Password, TLSConfig: opts.TLSConfig,
	}), nil
}

// firstOf returns the first text that is not empty.
func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// readContext returns a context for a command that shows or checks something.
func readContext() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), readTimeout, noAnswerError(readTimeout))
}
