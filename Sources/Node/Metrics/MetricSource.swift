import Edge
import EngineDriver
import FCMAPI
import Glibc
import NodeCore
import Synchronization

/// What a scrape reads.
struct MetricSource: Sendable {
    let node: NodeShared
    let operations: [OperationTimes]
    let edge: EdgeCounters
    let clients: ClientLimits
    let gates: Gates
    let certificates: CertificateKeeper?
    let allocatedBytes: (@Sendable () -> Int)?
    let logLinesLost: (@Sendable () -> Int)?

    var counters: NodeCounters { node.counters }
    var fairness: FairnessCounters { edge.fairness }
    var journal: EngineCounters { node.engines.counters }
    var view: ClusterView { node.cluster?.current ?? ClusterView() }

    /// The text that `/metrics` answers with.
    func text() -> String {
        var text = ""
        for metric in Metric.all where !metric.isOfCluster || node.isClustered {
            MetricText.append(metric, metric.read(self), to: &text)
        }
        return text
    }

    /// Resident memory of the process from /proc/self/statm, in bytes; 0 if it cannot be read.
    static func resident() -> Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var buffer = [CChar](repeating: 0, count: 128)
        guard fgets(&buffer, Int32(buffer.count), file) != nil else { return 0 }
        let text = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let fields = text.split(separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * sysconf(Int32(_SC_PAGESIZE)) : 0
    }
}

extension Atomic where Value == Int {
    /// The number as a scrape reads it.
    var read: Int { load(ordering: .relaxed) }
}
