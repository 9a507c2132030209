// Command external-dns is ExternalDNS with its CRD source and its RFC 2136 provider alone: the same
// packages and flags, without the other providers, which take minutes to compile.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	log "github.com/sirupsen/logrus"

	"sigs.k8s.io/external-dns/endpoint"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns/validation"
	"sigs.k8s.io/external-dns/plan"
	"sigs.k8s.io/external-dns/provider"
	"sigs.k8s.io/external-dns/provider/rfc2136"
	"sigs.k8s.io/external-dns/registry"
	"sigs.k8s.io/external-dns/registry/txt"
	"sigs.k8s.io/external-dns/source"
	"sigs.k8s.io/external-dns/source/annotations"
	"sigs.k8s.io/external-dns/source/wrappers"
)

// publisher brings the records of a DNS server in line with those of a source.
type publisher struct {
	source   source.Source
	registry registry.Registry
	filter   *endpoint.DomainFilter
	config   *externaldns.Config
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	one, err := newPublisher(ctx)
	if err != nil {
		log.Fatal(err)
	}
	changed := make(chan struct{}, 1)
	one.source.AddEventHandler(ctx, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	again := time.NewTicker(one.config.Interval)
	for {
		if err := one.publish(ctx); err != nil {
			log.Errorf("not published: %v", err)
		}
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

func newPublisher(ctx context.Context) (*publisher, error) {
	config := externaldns.NewConfig()
	if err := config.ParseFlags(os.Args[1:]); err != nil {
		return nil, err
	}
	if err := validation.ValidateConfig(config); err != nil {
		return nil, err
	}
	annotations.SetAnnotationPrefix(config.AnnotationPrefix)
	settings, err := source.NewSourceConfig(config)
	if err != nil {
		return nil, err
	}
	from, err := wrappers.Build(ctx, settings)
	if err != nil {
		return nil, err
	}
	filter := endpoint.NewDomainFilter(config.DomainFilter)
	to, err := rfc2136.New(ctx, config, filter)
	if err != nil {
		return nil, err
	}
	owned, err := txt.New(config, to)
	if err != nil {
		return nil, err
	}
	return &publisher{source: from, registry: owned, filter: filter, config: config}, nil
}

// publish changes the records that differ.
func (p *publisher) publish(ctx context.Context) error {
	current, err := p.registry.Records(ctx)
	if err != nil {
		return err
	}
	ctx = context.WithValue(ctx, provider.RecordsContextKey, current)
	wanted, err := p.source.Endpoints(ctx)
	if err != nil {
		return err
	}
	if wanted, err = p.registry.AdjustEndpoints(wanted); err != nil {
		return err
	}
	difference := &plan.Plan{
		Policies:       []plan.Policy{plan.Policies[p.config.Policy]},
		Current:        current,
		Desired:        wanted,
		DomainFilter:   endpoint.MatchAllDomainFilters{p.filter, p.registry.GetDomainFilter()},
		ManagedRecords: p.config.ManagedDNSRecordTypes,
		ExcludeRecords: p.config.ExcludeDNSRecordTypes,
		OwnerID:        p.registry.OwnerID(),
	}
	changes := difference.Calculate().Changes
	if !changes.HasChanges() {
		return nil
	}
	return p.registry.ApplyChanges(ctx, changes)
}
