module github.com/leasewheel/leasewheel/compat/redislock

go 1.26.0

require (
	github.com/bsm/redislock v0.9.4
	github.com/leasewheel/leasewheel v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

replace github.com/leasewheel/leasewheel => ../..
