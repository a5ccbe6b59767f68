/// The measurements of one run of a load.
public struct LoadReport: Sendable {
    public var name: String
    /// The name of one operation: a request, a delivery, a subscription, a connection.
    public var unit: String
    public var operations = 0
    public var seconds = 0.0
    /// CPU seconds of the measured processes; nil if no process was named.
    public var cpuSeconds: Double?
    /// CPU seconds that this program used in the same time.
    public var ownCPUSeconds = 0.0
    /// Histograms in nanoseconds, each with its name.
    public var latencies: [(name: String, histogram: Histogram)] = []
    /// Answers by HTTP status; 0 means a connection or stream that broke.
    public var statuses: [Int: Int] = [:]
    /// Other figures, in the order in which they are shown.
    public var facts: [(name: String, value: Double)] = []

    public init(_ name: String, unit: String) {
        self.name = name
        self.unit = unit
    }

    public var microsecondsEach: Double? {
        guard let cpuSeconds, operations > 0 else { return nil }
        return cpuSeconds * 1e6 / Double(operations)
    }

    public var perSecond: Double { seconds > 0 ? Double(operations) / seconds : 0 }
}

/// Why a load could not be run.
public struct LoadError: Error, CustomStringConvertible {
    public var description: String
    public init(_ description: String) { self.description = description }
}
