{{/*
Names are fixed: a hub has one causeway, the webhook configurations are cluster-wide, rights are given by name, and kubectl mcs looks for
these names. A helper for a component takes {component, values, root}: its name, its values and the root context.
*/}}

{{/* Labels of an object: {component, root}; without a component, those of the whole. */}}
{{- define "causeway.labels" -}}
app.kubernetes.io/name: causeway
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels by which the pods of a component are selected: they never change. */}}
{{- define "causeway.selector" -}}
app.kubernetes.io/name: causeway
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Annotations of an object that neither Helm nor a GitOps tool deletes when it leaves the desired state. */}}
{{- define "causeway.kept" -}}
argocd.argoproj.io/sync-options: Prune=false
helm.sh/resource-policy: keep
kustomize.toolkit.fluxcd.io/prune: disabled
{{- end }}

{{- define "causeway.podAnnotations" -}}
{{- $annotations := deepCopy (default dict .values.podAnnotations) }}
{{- if .root.Values.metrics.annotations }}
{{- $annotations = merge $annotations (dict "prometheus.io/scrape" "true" "prometheus.io/port" "8081") }}
{{- end }}
{{- with $annotations }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* An image: {name, digest, root}. */}}
{{- define "causeway.image" -}}
{{- $image := .root.Values.image -}}
{{- printf "%s/%s:%s" (trimSuffix "/" $image.registry) .name (default .root.Chart.AppVersion $image.tag) -}}
{{- with .digest }}@{{ . }}{{ end -}}
{{- end }}

{{/* What passes the Pod Security standard "restricted". */}}
{{- define "causeway.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "causeway.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Where the pods of a component run, and what with. */}}
{{- define "causeway.scheduling" -}}
{{- $selector := include "causeway.selector" . }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- $linux := dict "kubernetes.io/os" "linux" }}
nodeSelector:
  {{- toYaml (merge (dict) (default dict .values.nodeSelector) $linux) | nindent 2 }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.topologySpread }}
topologySpreadConstraints:
  {{- range . }}
  - {{ toYaml . | nindent 4 | trim }}
    labelSelector:
      matchLabels:
        {{- $selector | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
{{- end }}

{{/* The variables of both programs, for their traces. */}}
{{- define "causeway.tracingEnv" -}}
{{- with .Values.tracing.sampler }}
- name: OTEL_TRACES_SAMPLER
  value: {{ . }}
{{- end }}
{{- with .Values.tracing.samplerArg }}
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ . | quote }}
{{- end }}
{{- with .Values.tracing.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Whether the hub sends MultiClusterServices to the webhook: the webhook runs there, or is reached at a URL. */}}
{{- define "causeway.registered" -}}
{{- if or (not .Values.external.enabled) .Values.external.webhookURL }}true{{ end -}}
{{- end }}

{{/* Whether the webhook issues its own certificates and publishes their authority. */}}
{{- define "causeway.selfManaged" -}}
{{- if and (eq .Values.webhook.certificates.source "selfManaged") (not .Values.external.caBundle) }}true{{ end -}}
{{- end }}

{{/* What both webhook configurations have in common, but for how the webhook is reached. */}}
{{- define "causeway.webhookRules" -}}
rules:
  - apiGroups: [networking.karmada.io]
    apiVersions: [v1alpha1]
    operations: [CREATE, UPDATE]
    resources: [multiclusterservices]
    scope: Namespaced
# Nothing that only removes a finalizer, edits another annotation or concerns an object that is going depends on the webhook.
# A range without clusters, which Karmada's webhook adds to every object that has none, is no change.
matchConditions:
  - name: created-or-not-being-deleted
    expression: request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp)
  - name: created-or-spec-labels-or-annotations-changed
    expression: >-
      request.operation == 'CREATE'
      || has(object.spec) != has(oldObject.spec)
      || (has(object.spec)
      && (object.spec.exists(field, field != 'range' && object.spec[?field] != oldObject.spec[?field])
      || oldObject.spec.exists(field, field != 'range' && !(field in object.spec))
      || object.spec.?range.?clusterNames != oldObject.spec.?range.?clusterNames))
      || has(object.metadata.labels) != has(oldObject.metadata.labels)
      || (has(object.metadata.labels) && object.metadata.labels != oldObject.metadata.labels)
      || ['mcs.causeway.dev/prefer', 'mcs.causeway.dev/min-ready', 'mcs.causeway.dev/unreachable',
      'mcs.causeway.dev/share', 'mcs.causeway.dev/reach',
      'mcs.causeway.dev/hostname', 'mcs.causeway.dev/hostname-routing'].exists(name,
      object.metadata.?annotations[?name] != oldObject.metadata.?annotations[?name])
failurePolicy: {{ .Values.webhook.failurePolicy }}
matchPolicy: Equivalent
{{- end }}

{{/* How the API server reaches the webhook: {path, root}. */}}
{{- define "causeway.webhookClient" -}}
{{- $values := .root.Values }}
{{- if $values.external.enabled -}}
url: {{ trimSuffix "/" $values.external.webhookURL }}/{{ .path }}
{{- with $values.external.caBundle }}
caBundle: {{ b64enc . }}
{{- end }}
{{- else -}}
service:
  name: causeway-webhook
  namespace: {{ .root.Release.Namespace }}
  path: /{{ .path }}
  port: 443
{{- if eq $values.webhook.certificates.source "secret" }}
caBundle: {{ b64enc $values.webhook.certificates.caBundle }}
{{- end }}
{{- end }}
{{- end }}

{{/* Of the objects of `helm test`: they are made in the order of their weights, and go when it has passed. */}}
{{- define "causeway.hook" -}}
helm.sh/hook: test
helm.sh/hook-weight: "{{ . }}"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* Certificates of a PEM bundle, one a line, without white space. */}}
{{- define "causeway.certificates" -}}
{{- range regexFindAll "-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----" . -1 }}
{{ regexReplaceAll "\\s" . "" }}
{{- end }}
{{- end }}

{{/*
Refuses to replace the authorities that the running webhook or cert-manager publishes. They own the caBundle: an upgrade would fail
after it has changed the Deployment, or the API server would refuse the pods of one side until the rollout is complete.
A running webhook that may write the caBundle removes an added authority at once. Once the stored Deployment has --tls-dir, nothing
is refused. `helm template` and --dry-run=client look up nothing, and refuse nothing.
*/}}
{{- define "causeway.validateAuthority" -}}
{{- $configuration := lookup "admissionregistration.k8s.io/v1" "ValidatingWebhookConfiguration" "" "causeway" }}
{{- $deployment := lookup "apps/v1" "Deployment" .Release.Namespace "causeway-webhook" }}
{{- $rights := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "causeway-webhook-certificates" }}
{{- $webhook := first (default (list (dict)) $configuration.webhooks) }}
{{- $stored := dig "clientConfig" "caBundle" "" $webhook | default "" | b64dec | include "causeway.certificates" | trim }}
{{- $given := include "causeway.certificates" .Values.webhook.certificates.caBundle | trim }}
{{- $flags := list }}
{{- range dig "spec" "template" "spec" "containers" (list) $deployment }}
{{- $flags = concat $flags (default (list) .args) }}
{{- end }}
{{- $isInjected := dig "metadata" "annotations" "cert-manager.io/inject-ca-from" "" $configuration }}
{{- $isPublished := or $isInjected (not (contains "--tls-dir" (join " " $flags))) }}
{{- if and $stored $isPublished }}
{{- $isRefused := false }}
{{- range splitList "\n" $stored }}
{{- if not (contains . $given) }}
{{- $isRefused = true }}
{{- end }}
{{- end }}
{{- range splitList "\n" $given }}
{{- if and $rights (not (contains . $stored)) }}
{{- $isRefused = true }}
{{- end }}
{{- end }}
{{- if $isRefused }}
{{- fail "the API server trusts the authorities that the running webhook or cert-manager publishes, and webhook.certificates.caBundle would replace them before the pods are replaced. Nothing was changed. First delete ClusterRole and ClusterRoleBinding causeway-webhook-certificates, and upgrade with the stored caBundle and the new authority in one file, in Helm 4 with --force-conflicts. When the rollout is complete, upgrade with the new authority alone. docs/certificates.md has the commands" }}
{{- end }}
{{- end }}
{{- end }}

{{/* What no schema can say: values that make no sense together. */}}
{{- define "causeway.validate" -}}
{{- $certificates := .Values.webhook.certificates }}
{{- if ne .Release.Namespace "causeway-system" }}
{{- fail (printf "causeway runs in namespace causeway-system, where kubectl mcs looks for it, not in %s: give --namespace causeway-system --create-namespace" .Release.Namespace) }}
{{- end }}
{{- if .Values.external.enabled }}
{{- if ne $certificates.source "selfManaged" }}
{{- fail (printf "webhook.certificates.source is %s, but with external.enabled the webhook runs elsewhere, with certificates of its own: leave it selfManaged, and give external.caBundle if the webhook does not publish its authority itself" $certificates.source) }}
{{- end }}
{{- if .Values.webhook.clientCA.configMapName }}
{{- fail "webhook.clientCA is mounted into the webhook, which with external.enabled runs elsewhere: start that with --client-ca, and leave the value empty" }}
{{- end }}
{{- if .Values.webhook.missingService }}
{{- fail "webhook.missingService is a flag of the webhook, which with external.enabled runs elsewhere: start that with --missing-service, and leave the value empty" }}
{{- end }}
{{- else if or .Values.external.webhookURL .Values.external.caBundle }}
{{- fail "external.webhookURL and external.caBundle are for a webhook that runs outside the hub: set external.enabled too, or leave them empty" }}
{{- end }}
{{- if and .Values.external.caBundle (not .Values.external.webhookURL) }}
{{- fail "external.caBundle is the authority of a webhook at external.webhookURL, which is empty: give both" }}
{{- end }}
{{- if eq $certificates.source "secret" }}
{{- if not (and $certificates.secretName $certificates.caBundle) }}
{{- fail "webhook.certificates.source is secret: give the Secret's name in webhook.certificates.secretName and its authority, in PEM, in webhook.certificates.caBundle" }}
{{- end }}
{{- else if or $certificates.secretName $certificates.caBundle }}
{{- fail (printf "webhook.certificates.secretName and caBundle are for source secret, and the source is %s" $certificates.source) }}
{{- end }}
{{- if and $certificates.issuerRef (ne $certificates.source "certManager") }}
{{- fail (printf "webhook.certificates.issuerRef is for source certManager, and the source is %s" $certificates.source) }}
{{- end }}
{{- if and .Values.webhook.clientCA.names (not .Values.webhook.clientCA.configMapName) }}
{{- fail "webhook.clientCA.names are names in certificates of webhook.clientCA.configMapName, which is empty: give both" }}
{{- end }}
{{- range $labels := list .Values.commonLabels .Values.webhook.podLabels .Values.controller.podLabels .Values.tunnel.podLabels }}
{{- range $name := list "app.kubernetes.io/name" "app.kubernetes.io/component" "app.kubernetes.io/managed-by" }}
{{- if hasKey (default dict $labels) $name }}
{{- fail (printf "commonLabels and podLabels cannot have %s, which the chart or Helm sets: choose another name" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (or .Values.tracing.sampler .Values.tracing.samplerArg) (not .Values.tracing.endpoint) }}
{{- fail "tracing.sampler and tracing.samplerArg say which traces are sent to tracing.endpoint, which is empty: give it too, or leave them empty" }}
{{- end }}
{{- range .Values.webhook.extraArgs }}
{{- if regexMatch "^--(bind|admin-bind|self-managed-certs|tls-dir|log-format|missing-service|client-ca|client-name|otlp-endpoint)(=|$)" . }}
{{- fail (printf "webhook.extraArgs has %s, which the chart gives itself: leave it out, and see webhook.certificates, webhook.clientCA, webhook.missingService and tracing.endpoint" .) }}
{{- end }}
{{- end }}
{{- range .Values.controller.extraArgs }}
{{- if regexMatch "^--(admin-bind|leader-elect|lease|log-format|otlp-endpoint|cluster-profiles|clusterprofile-provider-file|tunnel-front|tunnel-tls-dir)(=|$)" . }}
{{- fail (printf "controller.extraArgs has %s, which the chart gives itself: leave it out, and see tracing.endpoint, clusterProfiles and tunnel" .) }}
{{- end }}
{{- if and $.Values.clusterProfiles.secrets (regexMatch "^--secret-namespace(=|$)" .) }}
{{- fail (printf "controller.extraArgs has %s, a flag that clusterProfiles.secrets gives too: leave one of them out" .) }}
{{- end }}
{{- end }}
{{- range .Values.tunnel.extraArgs }}
{{- if regexMatch "^--(agents-bind|agents-upgrade-bind|front-bind|admin-bind|tls-dir|replicas|log-format|auth-front-[a-z-]+|enrolment-dir|kubeconfig)(=|$)" . }}
{{- fail (printf "tunnel.extraArgs has %s, which the chart gives itself: leave it out, and see tunnel.replicas, tunnel.secretName, tunnel.throughApiServer, tunnel.authenticatedFront and tunnel.enrolment" .) }}
{{- end }}
{{- end }}
{{- if and .Values.tunnel.authenticatedFront.enabled (not .Values.tunnel.enabled) }}
{{- fail "tunnel.authenticatedFront is a front of causeway-tunnel, which tunnel.enabled runs: enable it too" }}
{{- end }}
{{- if and .Values.tunnel.throughApiServer (not .Values.tunnel.enabled) }}
{{- fail "tunnel.throughApiServer is a way to causeway-tunnel, which tunnel.enabled runs: enable it too" }}
{{- end }}
{{- if and .Values.tunnel.throughApiServer .Values.karmada.enabled }}
{{- fail "tunnel.throughApiServer and karmada.enabled: the API server of a Karmada control plane reaches no pods: leave one of them out" }}
{{- end }}
{{- if and .Values.tunnel.enrolment.enabled (not .Values.tunnel.enabled) }}
{{- fail "tunnel.enrolment is for agents of causeway-tunnel, which tunnel.enabled runs: enable it too" }}
{{- end }}
{{- if and .Values.tunnel.authenticatedFront.tlsSecretName (not .Values.tunnel.authenticatedFront.tls) }}
{{- fail "tunnel.authenticatedFront.tlsSecretName is a certificate for clients with TLS, and tunnel.authenticatedFront.tls is false: leave one of them out" }}
{{- end }}
{{- if and .Values.tunnel.enabled .Values.external.enabled }}
{{- fail "tunnel.enabled runs causeway-tunnel on the hub, and with external.enabled the programs run elsewhere: leave it off, and start causeway-tunnel there" }}
{{- end }}
{{- if and .Values.clusterProfiles.namespaces .Values.karmada.enabled }}
{{- fail "clusterProfiles.namespaces and karmada.enabled: Karmada maintains the Clusters of its hub, so none is made of a ClusterProfile: leave one of them out" }}
{{- end }}
{{- if and (or .Values.clusterProfiles.secrets .Values.clusterProfiles.providers) (not .Values.clusterProfiles.namespaces) }}
{{- fail "clusterProfiles.secrets and clusterProfiles.providers are for the profiles of clusterProfiles.namespaces, which is empty: give it too" }}
{{- end }}
{{- range (list .Values.external.caBundle $certificates.caBundle) }}
{{- if and . (not (contains "-----BEGIN CERTIFICATE-----" .)) }}
{{- fail "a caBundle is a certificate in PEM, beginning with -----BEGIN CERTIFICATE-----: give it with --set-file" }}
{{- end }}
{{- end }}
{{- if eq $certificates.source "secret" }}
{{- include "causeway.validateAuthority" . }}
{{- end }}
{{- end }}
