module github.com/leasewheel/leasewheel/contrib/adapter/cron

go 1.26.0

require (
	github.com/leasewheel/leasewheel v0.1.0
	github.com/robfig/cron/v3 v3.0.1
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/leasewheel/leasewheel => ../../..
