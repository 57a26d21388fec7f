package main

import (
	"context"
	"errors"
	"hash/fnv"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/batchpersignal"
)

// A stand-in for contrib's exporter of this name, whose module is not to be had where these tests are built. It takes the settings that our
// configurations use, by the names in that exporter's documentation, refuses any other, and parts spans and log records by trace ID among fixed addresses. Each
// address is served by the Collector's real OTLP exporter. It can't show that the real one takes the same settings.
type balancing struct {
	RoutingKey string `mapstructure:"routing_key"`
	Protocol   struct {
		OTLP otlpexporter.Config `mapstructure:"otlp"`
	} `mapstructure:"protocol"`
	Resolver struct {
		Static struct {
			Hostnames []string `mapstructure:"hostnames"`
		} `mapstructure:"static"`
		DNS struct {
			Hostname string `mapstructure:"hostname"`
			Port     string `mapstructure:"port"`
			Interval string `mapstructure:"interval"`
		} `mapstructure:"dns"`
	} `mapstructure:"resolver"`
}

func (settings *balancing) Validate() error {
	if settings.RoutingKey != "traceID" {
		return errors.New(`this stand-in routes by traceID alone`)
	}
	if (len(settings.Resolver.Static.Hostnames) == 0) == (settings.Resolver.DNS.Hostname == "") {
		return errors.New(`name either a static or a dns resolver`)
	}
	return nil
}

// backends are the real exporters, one for each address, in the order of the configuration.
type backends[Exporter component.Component] struct {
	settings *balancing
	made     exporter.Settings
	create   func(context.Context, exporter.Settings, component.Config) (Exporter, error)
	all      []Exporter
}

func (b *backends[Exporter]) Start(ctx context.Context, host component.Host) error {
	b.made.ID = component.NewIDWithName(otlpexporter.NewFactory().Type(), b.made.ID.String())
	for _, address := range b.settings.Resolver.Static.Hostnames {
		config := b.settings.Protocol.OTLP
		config.ClientConfig.Endpoint = address
		one, err := b.create(ctx, b.made, &config)
		if err == nil {
			err = one.Start(ctx, host)
		}
		if err != nil {
			return err
		}
		b.all = append(b.all, one)
	}
	if len(b.all) == 0 {
		return errors.New("this stand-in asks no DNS; name static addresses")
	}
	return nil
}

func (b *backends[Exporter]) Shutdown(ctx context.Context) error {
	var failed error
	for _, one := range b.all {
		failed = errors.Join(failed, one.Shutdown(ctx))
	}
	return failed
}

func (b *backends[Exporter]) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (b *backends[Exporter]) of(id pcommon.TraceID) Exporter {
	hashed := fnv.New32a()
	hashed.Write(id[:])
	return b.all[hashed.Sum32()%uint32(len(b.all))]
}

type balancedTraces struct{ backends[exporter.Traces] }

func (b *balancedTraces) ConsumeTraces(ctx context.Context, traces ptrace.Traces) error {
	var failed error
	for _, part := range batchpersignal.SplitTraces(traces) { // each part has one trace ID
		id := part.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).TraceID()
		failed = errors.Join(failed, b.of(id).ConsumeTraces(ctx, part))
	}
	return failed
}

type balancedLogs struct{ backends[exporter.Logs] }

func (b *balancedLogs) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	var failed error
	for _, part := range batchpersignal.SplitLogs(logs) {
		id := part.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).TraceID()
		failed = errors.Join(failed, b.of(id).ConsumeLogs(ctx, part))
	}
	return failed
}

func newBalancingFactory() exporter.Factory {
	real := otlpexporter.NewFactory()
	defaults := func() component.Config {
		settings := &balancing{RoutingKey: "traceID"}
		settings.Protocol.OTLP = *real.CreateDefaultConfig().(*otlpexporter.Config)
		settings.Protocol.OTLP.ClientConfig.Endpoint = "set.for.each.address:4317"
		return settings
	}
	traces := func(_ context.Context, made exporter.Settings, config component.Config) (exporter.Traces, error) {
		return &balancedTraces{backends[exporter.Traces]{settings: config.(*balancing), made: made, create: real.CreateTraces}}, nil
	}
	logs := func(_ context.Context, made exporter.Settings, config component.Config) (exporter.Logs, error) {
		return &balancedLogs{backends[exporter.Logs]{settings: config.(*balancing), made: made, create: real.CreateLogs}}, nil
	}
	return exporter.NewFactory(component.MustNewType("loadbalancing"), defaults,
		exporter.WithTraces(traces, component.StabilityLevelDevelopment),
		exporter.WithLogs(logs, component.StabilityLevelDevelopment),
	)
}
