import Edge
import EngineDriver
import Model
import Partitions
import PushMessages

extension Metric {
    /// Every metric of a node.
    static let all: [Metric] =
        process + requests + fairness + connections + messages + pushes + partitions + journal
        + cluster.map(\.ofCluster)

    private static let isReady = gauge(
        "tidecast_ready", "Whether the node takes traffic: 1 or 0; `/readyz` says why not."
    ) { $0.node.notReady == nil ? 1 : 0 }

    /// What a node shows that cannot begin yet.
    static var beforeStart: String {
        var text = ""
        MetricText.append(isReady, [([], .number(0))], to: &text)
        return text
    }

    private static let process: [Metric] = [
        .gauge("tidecast_build_info", "The version that runs.", by: "version") { _ in
            [([Release.version], 1)]
        },
        isReady,
        .gauge("tidecast_resident_bytes", "Resident memory of the process.") { _ in MetricSource.resident() },
        .gauge("tidecast_allocated_bytes", "Bytes that the allocator has given out and not got back.") {
            $0.allocatedBytes?()
        },
        .gauge("tidecast_descriptors_max", "Descriptors that the process may have.") { $0.gates.limit },
        .counter(
            "tidecast_log_lines_lost_total", "Lines of the log for which standard error had no room."
        ) { $0.logLinesLost?() },
        .gauge(
            "tidecast_settings_damaged",
            "Stored settings and credentials that are damaged and count as none."
        ) { $0.node.administrator.current.damaged.count },
        .gauge(
            "tidecast_tls_certificate_not_after_seconds",
            "When the certificate in use ends, in seconds since 1970.", by: "file"
        ) { source in
            guard let certificates = source.certificates else { return [] }
            return certificates.files.map { ([$0.chain], certificates.notAfter($0)) }
        },
        .counter("tidecast_tls_reloads_total", "New certificates that the running server took into use.") {
            $0.certificates?.taken.read
        },
        .counter(
            "tidecast_tls_reloads_failed_total",
            "New certificates that could not be used; the former certificate stays in use."
        ) { $0.certificates?.refused.read },
    ]

    private static let requests: [Metric] = [
        .counter(
            "tidecast_requests_total", "Requests answered, by status; a stream counts when it begins.",
            by: "status"
        ) { source in
            (AnswerCounters.statuses + [nil]).map { status in
                ([status.map { "\($0)" } ?? "other"], Double(source.edge.answers.count(status)))
            }
        },
        .histogram(
            "tidecast_operation_seconds",
            "From a request's last byte to its answer, for refused requests too."
        ) { OperationTimes.histogram($0.operations) },
        .counter(
            "tidecast_refused_by_address_total", "Requests refused because of what came from their address.",
            by: "what"
        ) { source in
            let clients = source.clients
            return [
                (["registrations"], Double(clients.registrationsRefused)),
                (["changes"], Double(clients.changesRefused)), (["calls"], Double(clients.callsRefused)),
                (["assertions"], Double(clients.assertionsRefused)),
            ]
        },
        .counter(
            "tidecast_requests_refused_behind_total",
            "Requests and streams refused because too much waited for the partition's owner."
        ) { $0.counters.refusedBehind.read },
    ]

    private static let fairness: [Metric] = [
        .gauge("tidecast_requests_waiting", "Whole requests that wait for their project's turn.") {
            $0.fairness.waiting.read
        },
        .counter(
            "tidecast_requests_refused_waiting_total",
            "Requests that were refused because too many waited for their turn."
        ) { $0.fairness.refused.read },
        .histogram(
            "tidecast_request_turns_waited",
            "Turns that a request waited, if it was not handled at once; without held projects."
        ) { source in
            let (counts, sum) = source.fairness.turnsWaited
            return MetricHistogram(
                bounds: FairnessCounters.turnBounds.map { Double($0) }, counts: counts.map { UInt64($0) },
                sum: Double(sum))
        },
        .counter(
            "tidecast_turns_cut_total", "Turns of event loops that reached their bound with requests left."
        ) { $0.fairness.turnsCut.read },
        .counter(
            "tidecast_shares_held_total",
            "Times that a project was held because so many of its requests were refused for its quota."
        ) { $0.fairness.holds.read },
        .counter(
            "tidecast_connections_paused_total",
            "Times that a connection was left unread because too many requests of its project waited."
        ) { $0.fairness.pauses.read },
    ]

    private static let connections: [Metric] = [
        .gauge("tidecast_connections", "Connections that are open.") { $0.edge.open.read },
        .gauge("tidecast_connections_max", "Connections of clients that may be open.") {
            $0.gates.plan.clients
        },
        .counter("tidecast_connections_accepted_total", "Connections accepted.") { $0.edge.accepted.read },
        .counter(
            "tidecast_connections_refused_total",
            "Connections that were closed as they came because their address had too many."
        ) { $0.gates.clients.counters.refusedOfAddress.read },
        .counter(
            "tidecast_connections_too_fast_total",
            "Connections that were closed as they came because their address made them too fast."
        ) { $0.gates.clients.counters.refusedTooFast.read },
        .counter(
            "tidecast_proxy_headers_refused_total",
            "Connections that a malformed header of the PROXY protocol ended, or one of a stranger."
        ) { $0.gates.clients.counters.proxyHeaders.read },
        .counter(
            "tidecast_listener_pauses_total",
            "Times that listeners began to pause because all places for connections were taken.", by: "of"
        ) { source in source.gates.named.map { ([$0.name], Double($0.gate.counters.pauses.read)) } },
        .counter(
            "tidecast_accept_failures_total",
            "Connections that could not be accepted for want of descriptors.", by: "of"
        ) { source in source.gates.named.map { ([$0.name], Double($0.gate.counters.failures.read)) } },
    ]

    private static let messages: [Metric] = [
        .counter("tidecast_sends_accepted_total", "Messages accepted.") { $0.counters.sendsAccepted.read },
        .gauge("tidecast_streams", "Device streams that are open.") { $0.counters.streams.read },
        .counter("tidecast_deliveries_total", "Events handed to device streams.", by: "outcome") { source in
            [
                (["written"], Double(source.counters.deliveriesWritten.read)),
                (["behind"], Double(source.counters.deliveriesBehind.read)),
            ]
        },
        .counter(
            "tidecast_messages_dropped_total",
            "Messages that devices lost before they were delivered, one for each device and message.",
            by: "reason"
        ) { source in
            DropReason.allCases.map { ([$0.rawValue], Double(source.counters.dropped($0))) }
        },
        .counter(
            "tidecast_messages_late_total",
            "Messages that came to their devices' partition after their time to live on streams."
        ) { $0.counters.cameLate.all },
        .counter(
            "tidecast_conditions_undecided_total",
            "Partitions that had not decided a condition: at its answer (`later`), at the message's end (`never`).",
            by: "decides"
        ) { source in
            [
                (["later"], Double(source.counters.answeredUndecided.read)),
                (["never"], Double(source.counters.undecided.all)),
            ]
        },
        .counter(
            "tidecast_messages_left_out_total",
            "Messages left out of an event loop's full inbox; their senders ask again."
        ) { $0.counters.leftOut.read },
        .counter(
            "tidecast_bodies_gone_total",
            "Messages that waited for a device and whose bodies are not in the journal."
        ) { $0.counters.bodiesGone.read },
        .counter(
            "tidecast_devices_ended_total",
            "Devices that the server ended, since nobody had seen them, or their addresses were gone, for long.",
            by: "reason"
        ) { source in
            [
                ([Absence.unseen.rawValue], Double(source.counters.unseenEnded.all)),
                ([Absence.unreachable.rawValue], Double(source.counters.unreachableEnded.all)),
            ]
        },
    ]

    private static let pushes: [Metric] = [
        .counter(
            "tidecast_pushes_total", "Answers of push services to messages.", by: "service", "outcome"
        ) { source in
            Transport.Kind.allCases.flatMap { kind in
                PushCounters.outcomes.map {
                    ([kind.word, $0], Double(source.counters.pushes.count(kind, $0)))
                }
            }
        },
        .counter(
            "tidecast_pushes_again_total",
            "Messages pushed that a former owner of their partition stored, and may have pushed too."
        ) { $0.counters.pushedAgain.all },
        .gauge(
            "tidecast_push_messages",
            "Messages that this node's senders hold for push services: waiting for their turn, or sent and"
                + " not answered. Others wait in their partitions.", by: "service", "state"
        ) { source in
            Transport.Kind.allCases.flatMap { kind in
                let load = source.counters.pushes.load(kind)
                return [
                    ([kind.word, "waiting"], Double(load.waiting)),
                    ([kind.word, "sending"], Double(load.underWay)),
                ]
            }
        },
        .gauge(
            "tidecast_push_origins_paused",
            "Push services that an event loop leaves alone now, counted for each project and loop.",
            by: "service"
        ) { source in
            Transport.Kind.allCases.map { ([$0.word], Double(source.counters.pushes.load($0).paused)) }
        },
        .counter(
            "tidecast_push_alarms_total", "Outcomes of pushes that an operator must look into.",
            by: "service", "reason"
        ) { source in
            Transport.Kind.allCases.flatMap { kind in
                PushAlarm.allCases.map {
                    ([kind.word, $0.rawValue], Double(source.counters.pushes.count(kind, $0)))
                }
            }
        },
        .gauge("tidecast_user_agents", "Connected user agents of projects that are push services.") {
            $0.counters.userAgents.open.read
        },
        .counter("tidecast_user_agent_channels_total", "Channels that user agents have registered.") {
            $0.counters.userAgents.count(.registered)
        },
        .counter(
            "tidecast_user_agent_messages_total", "What became of messages for user agents.", by: "outcome"
        ) { source in
            UserAgentCounters.outcomes.map { ([$0.word], Double(source.counters.userAgents.count($0.note))) }
        },
    ]

    private static let partitions: [Metric] = [
        .gauge("tidecast_partitions", "Partitions of the data.") { $0.node.partitionCount },
        .gauge(
            "tidecast_partitions_quarantined", "Partitions of this node that are quarantined, so not served."
        ) { $0.node.quarantined.count },
        .gauge(
            "tidecast_partitions_refused", "Partitions whose records the engine refuses at the moment."
        ) { $0.node.refusals.count },
        .counter("tidecast_partitions_lost_total", "Partitions that were read again from the journal.") {
            $0.counters.partitionsLost.read
        },
        .counter(
            "tidecast_fingerprint_differences_total", "Pairs of partitions found to count different members."
        ) { $0.counters.fingerprintDifferences.read },
        .counter(
            "tidecast_outbox_marks_mended_total",
            "Marks of other partitions' outboxes that did not fit them and were set right."
        ) { $0.counters.marksMended.read },
        .gauge(
            "tidecast_outboxes_stalled",
            "Outboxes of this node's partitions that do not move though their receivers have owners."
        ) { $0.node.stalledOutboxes.count },
        .gauge(
            "tidecast_conditions_stalled",
            "Pairs of a partition of this node and one that does not answer its conditions, with an owner."
        ) { $0.node.stalledConditions.count },
        .counter(
            "tidecast_clock_leaps_total", "Times that a partition found the wall clock to have leapt."
        ) { $0.counters.clockLeaps.read },
    ]

    private static let journal: [Metric] = [
        .counter("tidecast_journal_commits_total", "Transactions of the journal.") {
            Int($0.journal.commits)
        },
        .counter("tidecast_journal_rows_total", "Records appended.") { Int($0.journal.rows) },
        .counter("tidecast_journal_bytes_total", "Bytes appended.") { Int($0.journal.bytes) },
        .counter(
            "tidecast_journal_refused_total",
            "Transactions refused (a full disk, a lock, no connection), to be tried again."
        ) { Int($0.journal.refused) },
        .histogram(
            "tidecast_journal_commit_seconds", "From handing a transaction to the disk until it is synced."
        ) { source in
            MetricHistogram(
                bounds: EngineCounters.timeBounds.map { Double($0.nanoseconds) / 1e9 },
                counts: source.journal.commitTimes,
                sum: Double(source.journal.commitTime.nanoseconds) / 1e9)
        },
        .histogram("tidecast_journal_batch_rows", "Records of all partitions in one transaction.") { source in
            MetricHistogram(
                bounds: EngineCounters.batchBounds.map { Double($0) }, counts: source.journal.batchSizes,
                sum: Double(source.journal.rows))
        },
    ]

    private static let cluster: [Metric] = [
        .gauge("tidecast_cluster_members", "Nodes whose sessions live, as this node sees it.") {
            $0.view.members.count
        },
        .gauge("tidecast_partitions_owned", "Partitions that this node owns.") { source in
            source.view.routes.count { $0?.session == source.view.own }
        },
        .gauge("tidecast_partitions_unowned", "Partitions that nobody owns, as this node sees it.") {
            $0.view.routes.count { $0 == nil }
        },
        .gauge("tidecast_databases_away", "Databases of the cluster that do not answer.") {
            $0.view.awaySince.count
        },
        .gauge(
            "tidecast_database_up", "Whether the database answers this node: 1 or 0.", by: "database"
        ) { source in
            (0..<source.node.map.databaseCount).map {
                (["\($0 + 1)"], source.view.awaySince[$0] == nil ? 1 : 0)
            }
        },
        .gauge(
            "tidecast_database_away_seconds", "For how long the database has been away; 0 if it answers.",
            by: "database"
        ) { source in
            (0..<source.node.map.databaseCount).map { database in
                let away = source.view.awaySince[database].map { Clock.monotonic().since($0).milliseconds }
                return (["\(database + 1)"], Double(away ?? 0) / 1000)
            }
        },
        .gauge("tidecast_peer_links_down", "Other nodes to which this node has no connection.") {
            $0.view.linksDown.count
        },
        .counter("tidecast_peer_frames_lost_total", "Frames that could not be handed to a connection.") {
            $0.counters.peerMessagesLost.read
        },
        .counter(
            "tidecast_peer_cut_off_total",
            "Connections that this node closed because the other node did not read its frames."
        ) { $0.counters.peersCutOff.read },
        .counter(
            "tidecast_peer_refused_total", "Connections refused and frames that could not be read."
        ) { $0.counters.peerMessagesBad.read },
        .counter(
            "tidecast_peer_certificates_refused_total",
            "Connections between nodes that were refused or cut for a certificate that an operator refused."
        ) { Int($0.node.administrator.refusedCertificates.refusedCount) },
        .counter(
            "tidecast_peer_answers_refused_total",
            "Entries, acknowledgements, answers and grants in the name of a partition, not from its owner."
        ) { $0.counters.answersRefused.read },
        .counter(
            "tidecast_peer_requests_late_total", "Requests that were dropped unread, past their deadline."
        ) { $0.counters.requestsLate.read },
        .gauge(
            "tidecast_clock_ahead_seconds", "By how much this machine's clock is ahead of the database's."
        ) { source in [([], Double(source.counters.clockAhead.load(ordering: .relaxed)) / 1000)] },
        .counter("tidecast_gossip_sent_total", "Datagrams of gossip that were sent.") {
            $0.counters.gossipSent.read
        },
        .counter(
            "tidecast_gossip_received_total", "Datagrams of gossip of this cluster that were received."
        ) { $0.counters.gossipReceived.read },
        .counter(
            "tidecast_gossip_refused_total", "Datagrams that were not of this cluster or could not be read."
        ) { $0.counters.gossipRefused.read },
        .counter(
            "tidecast_gossip_replayed_total",
            "Datagrams of gossip of this cluster that were refused as repeats or possible repeats."
        ) { $0.counters.gossipRepeated.read },
        .gauge(
            "tidecast_gossip_suspects", "Nodes that gossip suspects or holds dead, as this node sees it."
        ) { $0.view.gossip.count { $0.state == .suspect || $0.state == .dead } },
        .gauge(
            "tidecast_gossip_local_health",
            "How slow this node itself seems to be, from 0, which is well, to 8."
        ) { $0.view.localHealth },
    ]
}
