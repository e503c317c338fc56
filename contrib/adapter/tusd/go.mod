module github.com/leasewheel/leasewheel/contrib/adapter/tusd

go 1.26.0

require (
	github.com/leasewheel/leasewheel v0.1.0
	github.com/stretchr/testify v1.12.1
	github.com/tus/tusd/v2 v2.6.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/exp v0.0.0-20230626212559-97b1e661b5df // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/leasewheel/leasewheel => ../../..
