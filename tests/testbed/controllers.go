package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	accounts "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// Interval at which the garbage collector and the mapping of resources learn of new definitions.
const discoveryPeriod = 30 * time.Second

// manager holds what the controllers of one cluster share. It runs controllers of
// kube-controller-manager with its defaults; the other forty controllers are not compiled.
type manager struct {
	config        *rest.Config
	accountKey    string
	rootCA        string
	endpointSyncs int

	informers informers.SharedInformerFactory
	metadata  metadata.Interface
	started   chan struct{}
}

// start returns the loop of a controller that has a client of its own.
type start func(context.Context, *manager, kubernetes.Interface) (func(context.Context), error)

// The names are those of kube-controller-manager's --controllers.
var controllers = map[string]start{
	"clusterrole-aggregation-controller": startClusterRoleAggregation,
	"deployment-controller":              startDeployments,
	"endpoints-controller":               startEndpoints,
	"endpointslice-controller":           startEndpointSlices,
	"endpointslice-mirroring-controller": startMirroring,
	"garbage-collector-controller":       startGarbageCollector,
	"namespace-controller":               startNamespaces,
	"replicaset-controller":              startReplicaSets,
	"serviceaccount-controller":          startServiceAccounts,
	"serviceaccount-token-controller":    startTokens,
}

func runControllers() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := manage(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kube-controller-manager:", err)
		os.Exit(1)
	}
}

func manage(ctx context.Context) error {
	flags := flag.NewFlagSet("kube-controller-manager", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cluster")
	names := flags.String("controllers", "", "controllers to run, separated by commas")
	m := manager{started: make(chan struct{})}
	flags.StringVar(&m.accountKey, "service-account-private-key-file", "", "key that signs tokens")
	flags.StringVar(&m.rootCA, "root-ca-file", "", "certificates that Secrets of tokens hold")
	flags.IntVar(&m.endpointSyncs, "concurrent-endpoint-syncs", 5, "Services whose Endpoints are written at one time")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if err := m.connect(*kubeconfig); err != nil {
		return err
	}

	var running sync.WaitGroup
	for _, name := range strings.Split(*names, ",") {
		start, known := controllers[name]
		if !known {
			return fmt.Errorf("there is no controller %q", name)
		}
		client, err := kubernetes.NewForConfig(m.config)
		if err != nil {
			return err
		}
		run, err := start(ctx, &m, client)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		running.Go(func() { run(ctx) })
	}
	m.informers.Start(ctx.Done())
	close(m.started)
	running.Wait()
	return nil
}

func (m *manager) connect(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.QPS, config.Burst = 20, 30
	m.config = config
	if m.metadata, err = metadata.NewForConfig(config); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	trim := func(object any) (any, error) {
		if accessor, err := meta.Accessor(object); err == nil {
			accessor.SetManagedFields(nil)
		}
		return object, nil
	}
	m.informers = informers.NewSharedInformerFactoryWithOptions(client, 12*time.Hour, informers.WithTransform(trim))
	return nil
}

func startClusterRoleAggregation(_ context.Context, m *manager, client kubernetes.Interface) (func(context.Context), error) {
	controller := clusterroleaggregation.NewClusterRoleAggregation(m.informers.Rbac().V1().ClusterRoles(), client.RbacV1())
	return func(ctx context.Context) { controller.Run(ctx, 5) }, nil
}

func startDeployments(ctx context.Context, m *manager, client kubernetes.Interface) (func(context.Context), error) {
	apps, core := m.informers.Apps().V1(), m.informers.Core().V1()
	controller, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), client)
	return func(ctx context.Context) { controller.Run(ctx, 5) }, err
}

func startReplicaSets(ctx context.Context, m *manager, client kubernetes.Interface) (func(context.Context), error) {
	sets, pods := m.informers.Apps().V1().ReplicaSets(), m.informers.Core().V1().Pods()
	controller := replicaset.NewReplicaSetController(ctx, sets, pods, client, replicaset.BurstReplicas)
	return func(ctx context.Context) { controller.Run(ctx, 5) }, nil
}

func startEndpoints(ctx context.Context, m *manager, client kubernetes.Interface) (func(context.Context), error) {
	core := m.informers.Core().V1()
	controller := endpoint.NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), client, 0)
	return func(ctx context.Context) { controller.Run(ctx, m.endpointSyncs) }, nil
}

func startEndpointSlices(ctx context.Context, m *manager, client kubernetes.Interface) (func(context.Context), error) {
	core, slices := m.informers.Core().V1(), m.informers.Discovery().V1().EndpointSlices()
	controller := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), slices, 100, client, 0)
	return func(ctx context.Context) { controller.Run(ctx, 5) }, nil
}

func startMirroring(ctx context.Context, m *manager, client kubernetes.Interface) (func(context.Context), error) {
	core, slices := m.informers.Core().V1(), m.informers.Discovery().V1().EndpointSlices()
	controller := endpointslicemirroring.NewController(ctx, core.Endpoints(), slices, core.Services(), 1000, client, 0)
	return func(ctx context.Context) { controller.Run(ctx, 5) }, nil
}

func startNamespaces(ctx context.Context, m *manager, _ kubernetes.Interface) (func(context.Context), error) {
	config := rest.CopyConfig(m.config)
	config.QPS *= 20
	config.Burst *= 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	resources := client.Discovery().ServerPreferredNamespacedResources
	namespaces := m.informers.Core().V1().Namespaces()
	controller := namespace.NewNamespaceController(ctx, client, objects, resources, namespaces, 5*time.Minute, v1.FinalizerKubernetes)
	return func(ctx context.Context) { controller.Run(ctx, 10) }, nil
}

func startServiceAccounts(ctx context.Context, m *manager, client kubernetes.Interface) (func(context.Context), error) {
	core, options := m.informers.Core().V1(), accounts.DefaultServiceAccountsControllerOptions()
	logger := klog.FromContext(ctx)
	controller, err := accounts.NewServiceAccountsController(logger, core.ServiceAccounts(), core.Namespaces(), client, options)
	return func(ctx context.Context) { controller.Run(ctx, 1) }, err
}

func startTokens(ctx context.Context, m *manager, client kubernetes.Interface) (func(context.Context), error) {
	key, err := keyutil.PrivateKeyFromFile(m.accountKey)
	if err != nil {
		return nil, err
	}
	rootCA, err := os.ReadFile(m.rootCA)
	if err != nil {
		return nil, err
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	core := m.informers.Core().V1()
	options := accounts.TokensControllerOptions{TokenGenerator: generator, RootCA: rootCA}
	controller, err := accounts.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), client, options)
	return func(ctx context.Context) { controller.Run(ctx, 5) }, err
}

func startGarbageCollector(ctx context.Context, m *manager, client kubernetes.Interface) (func(context.Context), error) {
	config := rest.CopyConfig(m.config)
	config.QPS *= 2
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	go wait.Until(mapper.Reset, discoveryPeriod, ctx.Done())

	ignored := garbagecollector.DefaultIgnoredResources()
	factory := metadatainformer.NewSharedInformerFactory(m.metadata, 12*time.Hour)
	all := informerfactory.NewInformerFactory(m.informers, factory)
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, m.metadata, mapper, ignored, all, m.started)
	collector, err := garbagecollector.NewComposedGarbageCollector(ctx, client, objects, mapper, graph)
	return func(ctx context.Context) {
		var both sync.WaitGroup
		both.Go(func() { collector.Run(ctx, 20, discoveryPeriod) })
		both.Go(func() { collector.Sync(ctx, client.Discovery(), discoveryPeriod) })
		both.Wait()
	}, err
}
