import Edge
import EngineDriver
import FCMAPI
import Glibc
import Model
import NodeCore
import PushMessages
import SQLiteEngine
import Synchronization

/// The metrics of a node. A scrape reads the values; no topic, token or device is a label.
final class NodeMetrics: Sendable {
    let registry = PrometheusRegistry()
    /// From a request's last byte to its answer.
    let requestSeconds: MetricHistogram
    private let edge = Mutex<EdgeCounters?>(nil)

    init() {
        requestSeconds = registry.histogram(
            "tidecast_operation_seconds", "From a request's last byte to its answer.", scale: .seconds)
        registry.info("tidecast_build_info", "The version that runs.", labels: [("version", Release.version)])
        registry.gauge(
            "tidecast_resident_bytes", "Resident memory of the process.", read: { NodeMetrics.resident() })
    }

    /// Adds metrics that read the counters of the node and of its engines.
    func watch(_ shared: NodeShared) {
        let counters = shared.counters
        registry.counter(
            "tidecast_sends_accepted_total", "Messages accepted.",
            read: { Double(counters.sendsAccepted.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_deliveries_total", "Events handed to device streams.", labels: [("outcome", "written")],
            read: { Double(counters.deliveriesWritten.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_deliveries_total", "Events handed to device streams.", labels: [("outcome", "behind")],
            read: { Double(counters.deliveriesBehind.load(ordering: .relaxed)) })
        registry.gauge(
            "tidecast_streams", "Device streams that are open.",
            read: { Double(counters.streams.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_partitions_lost_total", "Partitions that were read again from the journal.",
            read: { Double(counters.partitionsLost.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_fingerprint_differences_total", "Pairs of partitions found to count different members.",
            read: { Double(counters.fingerprintDifferences.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_outbox_marks_mended_total",
            "Marks of other partitions' outboxes that did not fit them and were set right.",
            read: { Double(counters.marksMended.load(ordering: .relaxed)) })
        registry.gauge(
            "tidecast_outboxes_stalled",
            "Outboxes of this node's partitions that stand still though their receivers have owners.",
            read: { Double(shared.stalledOutboxes.count) })
        registry.gauge(
            "tidecast_conditions_stalled",
            "Pairs of a partition of this node and one that does not answer its conditions, with an owner.",
            read: { Double(shared.stalledConditions.count) })
        registry.gauge(
            "tidecast_partitions_quarantined",
            "Partitions of this node that are quarantined, so not served.",
            read: { Double(shared.quarantined.count) })
        registry.gauge(
            "tidecast_partitions_refused", "Partitions whose records the engine refuses at the moment.",
            read: { Double(shared.refusals.count) })
        registry.counter(
            "tidecast_bodies_gone_total",
            "Messages that waited for a device and whose bodies are not in the journal.",
            read: { Double(counters.bodiesGone.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_messages_late_total",
            "Messages that came to their devices' partition after their time to live on streams.",
            read: { Double(counters.cameLate.all) })
        registry.counter(
            "tidecast_clock_leaps_total", "Times that a partition found the wall clock to have leapt.",
            read: { Double(counters.clockLeaps.load(ordering: .relaxed)) })
        registry.gauge(
            "tidecast_partitions", "Partitions of the data.", read: { Double(shared.partitionCount) })
        registry.counter(
            "tidecast_requests_refused_behind_total",
            "Requests and streams refused because too much waited for the partition's owner.",
            read: { Double(counters.refusedBehind.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_messages_left_out_total",
            "Messages left out of an event loop's full inbox; their senders ask again.",
            read: { Double(counters.leftOut.load(ordering: .relaxed)) })
        watchDrops(counters)
        watchPushes(counters.pushes)
        watchUserAgents(counters.userAgents)
        watchJournal(shared.engines)
    }

    private func watchPushes(_ counters: PushCounters) {
        for kind in Transport.Kind.allCases {
            for outcome in PushCounters.outcomes {
                registry.counter(
                    "tidecast_pushes_total", "Answers of push services to messages.",
                    labels: [("service", kind.word), ("outcome", outcome)],
                    read: { Double(counters.count(kind, outcome)) })
            }
            let messages: [(state: String, read: @Sendable (PushLoad) -> Int)] = [
                ("waiting", { $0.waiting }), ("sending", { $0.underWay }),
            ]
            for (state, read) in messages {
                registry.gauge(
                    "tidecast_push_messages",
                    "Messages that this node's senders hold for push services: waiting for their turn, or"
                        + " sent and not answered. Others wait in their partitions.",
                    labels: [("service", kind.word), ("state", state)],
                    read: { Double(read(counters.load(kind))) })
            }
            registry.gauge(
                "tidecast_push_origins_paused",
                "Push services that an event loop leaves alone now, counted for each project and loop.",
                labels: [("service", kind.word)], read: { Double(counters.load(kind).paused) })
            for alarm in PushAlarm.allCases {
                registry.counter(
                    "tidecast_push_alarms_total", "Outcomes of pushes that an operator must look into.",
                    labels: [("service", kind.word), ("reason", alarm.rawValue)],
                    read: { Double(counters.count(kind, alarm)) })
            }
        }
    }

    private func watchJournal(_ engine: Engines) {
        registry.counter(
            "tidecast_journal_commits_total", "Transactions of the journal.",
            read: { Double(engine.counters.commits) })
        registry.counter(
            "tidecast_journal_rows_total", "Records appended.", read: { Double(engine.counters.rows) })
        registry.counter(
            "tidecast_journal_bytes_total", "Bytes appended.", read: { Double(engine.counters.bytes) })
        registry.counter(
            "tidecast_journal_refused_total",
            "Transactions refused (a full disk, a lock, no connection), to be tried again.",
            read: { Double(engine.counters.refused) })
        registry.histogram(
            "tidecast_journal_commit_seconds", "From handing a transaction to the disk until it is synced.",
            read: {
                let counters = engine.counters
                return ReadHistogram(
                    bounds: EngineCounters.timeBounds.map { Double($0.nanoseconds) / 1e9 },
                    counts: counters.commitTimes,
                    sum: Double(counters.commitTime.nanoseconds) / 1e9)
            })
        registry.histogram(
            "tidecast_journal_batch_rows", "Records of all partitions in one transaction.",
            read: {
                let counters = engine.counters
                return ReadHistogram(
                    bounds: EngineCounters.batchBounds.map { Double($0) }, counts: counters.batchSizes,
                    sum: Double(counters.rows))
            })
    }

    /// Adds the metrics that only a node of a cluster shows.
    func watchCluster(_ shared: NodeShared) {
        let counters = shared.counters
        registry.gauge(
            "tidecast_cluster_members", "Nodes whose sessions live, as this node sees it.",
            read: { Double(shared.cluster?.current.members.count ?? 0) })
        registry.gauge(
            "tidecast_partitions_owned", "Partitions that this node owns.",
            read: {
                let view = shared.cluster?.current ?? ClusterView()
                return Double(view.routes.count { $0?.session == view.own })
            })
        registry.gauge(
            "tidecast_partitions_unowned", "Partitions that nobody owns, as this node sees it.",
            read: { Double(shared.cluster?.current.routes.count { $0 == nil } ?? 0) })
        registry.gauge(
            "tidecast_databases_away", "Databases of the cluster that do not answer.",
            read: { Double(shared.cluster?.current.awaySince.count ?? 0) })
        registry.gauge(
            "tidecast_peer_links_down", "Other nodes to which this node has no connection.",
            read: { Double(shared.cluster?.current.linksDown.count ?? 0) })
        registry.counter(
            "tidecast_peer_frames_lost_total", "Frames that could not be handed to a connection.",
            read: { Double(counters.peerMessagesLost.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_peer_cut_off_total",
            "Connections that this node closed because the other node did not read its frames.",
            read: { Double(counters.peersCutOff.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_peer_refused_total", "Connections refused and frames that could not be read.",
            read: { Double(counters.peerMessagesBad.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_peer_certificates_refused_total",
            "Connections between nodes that were refused or cut for a certificate that an operator refused.",
            read: { Double(shared.administrator.refusedCertificates.refusedCount) })
        registry.counter(
            "tidecast_peer_answers_refused_total",
            "Entries, acknowledgements, answers and grants in the name of a partition, not from its owner.",
            read: { Double(counters.answersRefused.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_peer_requests_late_total", "Requests that were dropped unread, past their deadline.",
            read: { Double(counters.requestsLate.load(ordering: .relaxed)) })
        registry.gauge(
            "tidecast_clock_ahead_seconds", "By how much this machine's clock is ahead of the database's.",
            read: { Double(counters.clockAhead.load(ordering: .relaxed)) / 1000 })
        registry.counter(
            "tidecast_gossip_sent_total", "Datagrams of gossip that were sent.",
            read: { Double(counters.gossipSent.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_gossip_received_total", "Datagrams of gossip of this cluster that were received.",
            read: { Double(counters.gossipReceived.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_gossip_refused_total", "Datagrams that were not of this cluster or could not be read.",
            read: { Double(counters.gossipRefused.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_gossip_replayed_total",
            "Datagrams of gossip of this cluster that were refused as repeats or possible repeats.",
            read: { Double(counters.gossipRepeated.load(ordering: .relaxed)) })
        registry.gauge(
            "tidecast_gossip_suspects", "Nodes that gossip suspects or holds dead, as this node sees it.",
            read: {
                let view = shared.cluster?.current ?? ClusterView()
                return Double(view.gossip.count { $0.state == .suspect || $0.state == .dead })
            })
        registry.gauge(
            "tidecast_gossip_local_health",
            "How slow this node itself seems to be, from 0, which is well, to 8.",
            read: { Double(shared.cluster?.current.localHealth ?? 0) })
    }

    /// Labels are the paths of certificate files, as the settings name them.
    func watch(_ keeper: CertificateKeeper) {
        for files in keeper.files {
            registry.gauge(
                "tidecast_tls_certificate_not_after_seconds",
                "When the certificate in use ends, in seconds since 1970.", labels: [("file", files.chain)],
                read: { keeper.notAfter(files) })
        }
        registry.counter(
            "tidecast_tls_reloads_total", "New certificates that the running server took into use.",
            read: { Double(keeper.taken.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_tls_reloads_failed_total",
            "New certificates that could not be used; the former certificate stays in use.",
            read: { Double(keeper.refused.load(ordering: .relaxed)) })
    }

    func watch(logLinesLost: @escaping @Sendable () -> Int) {
        registry.counter(
            "tidecast_log_lines_lost_total", "Lines of the log for which standard error had no room.",
            read: { Double(logLinesLost()) })
    }

    func watch(allocated read: @escaping @Sendable () -> Double) {
        registry.gauge(
            "tidecast_allocated_bytes", "Bytes that the allocator has given out and not got back.", read: read
        )
    }

    func watch(_ edge: EdgeCounters) {
        watchAnswers(edge.answers)
        registry.counter(
            "tidecast_connections_accepted_total", "Connections accepted.",
            read: { Double(edge.accepted.load(ordering: .relaxed)) })
        registry.gauge(
            "tidecast_connections", "Connections that are open.",
            read: { Double(edge.open.load(ordering: .relaxed)) })
        watch(edge.fairness)
    }

    private func watch(_ fairness: FairnessCounters) {
        registry.gauge(
            "tidecast_requests_waiting", "Whole requests that wait for their project's turn.",
            read: { Double(fairness.waiting.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_turns_cut_total", "Turns of event loops that reached their bound with requests left.",
            read: { Double(fairness.turnsCut.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_shares_held_total",
            "Times that a project was held because so many of its requests were refused for its quota.",
            read: { Double(fairness.holds.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_connections_paused_total",
            "Times that a connection was left unread because too many requests of its project waited.",
            read: { Double(fairness.pauses.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_requests_refused_waiting_total",
            "Requests that were refused because too many waited for their turn.",
            read: { Double(fairness.refused.load(ordering: .relaxed)) })
        registry.histogram(
            "tidecast_request_turns_waited",
            "Turns that a request waited, where it was not handled at once; without held projects.",
            read: {
                let (counts, sum) = fairness.turnsWaited
                return ReadHistogram(
                    bounds: FairnessCounters.turnBounds.map { Double($0) },
                    counts: counts.map { UInt64($0) }, sum: Double(sum))
            })
    }

    func watch(_ gates: Gates) {
        let (plan, limit) = (gates.plan, gates.limit)
        registry.gauge(
            "tidecast_connections_max", "Connections of clients that may be open.",
            read: { Double(plan.clients) })
        registry.gauge(
            "tidecast_descriptors_max", "Descriptors that the process may have.", read: { Double(limit) })
        for (whose, gate) in [
            ("clients", gates.clients), ("operators", gates.operators), ("scrapers", gates.scrapers),
            ("nodes", gates.peers),
        ] {
            let counters = gate.counters
            registry.counter(
                "tidecast_listener_pauses_total",
                "Times that listeners began to pause because all places for connections were taken.",
                labels: [("of", whose)], read: { Double(counters.pauses.load(ordering: .relaxed)) })
            registry.counter(
                "tidecast_accept_failures_total",
                "Connections that could not be accepted for want of descriptors.", labels: [("of", whose)],
                read: { Double(counters.failures.load(ordering: .relaxed)) })
        }
        let refused = gates.clients.counters
        registry.counter(
            "tidecast_connections_refused_total",
            "Connections that were closed as they came because their address had too many.",
            read: { Double(refused.refusedOfAddress.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_connections_too_fast_total",
            "Connections that were closed as they came because their address made them too fast.",
            read: { Double(refused.refusedTooFast.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_proxy_headers_refused_total",
            "Connections that a malformed header of the PROXY protocol ended, or one of a stranger.",
            read: { Double(refused.proxyHeaders.load(ordering: .relaxed)) })
    }

    func watch(_ clients: ClientLimits) {
        let counts: [(what: String, read: @Sendable () -> Int)] = [
            ("registrations", { clients.registrationsRefused }), ("changes", { clients.changesRefused }),
            ("calls", { clients.callsRefused }), ("assertions", { clients.assertionsRefused }),
        ]
        for (what, read) in counts {
            registry.counter(
                "tidecast_refused_by_address_total",
                "Requests refused because of what came from their address.",
                labels: [("what", what)], read: { Double(read()) })
        }
    }

    /// From /proc/self/statm, in bytes; 0 where it cannot be read.
    private static func resident() -> Double {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var buffer = [CChar](repeating: 0, count: 128)
        guard fgets(&buffer, Int32(buffer.count), file) != nil else { return 0 }
        let text = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let fields = text.split(separator: " ")
        return fields.count > 1 ? (Double(fields[1]) ?? 0) * Double(sysconf(Int32(_SC_PAGESIZE))) : 0
    }
}
