/// What one run of a load measured.
public struct LoadReport: Sendable {
    public var name: String
    /// What an operation is: a request, a delivery, a subscription, a connection.
    public var unit: String
    public var operations = 0
    public var seconds = 0.0
    /// CPU seconds of the measured processes; nil where none was named.
    public var cpuSeconds: Double?
    /// CPU seconds that this program itself used meanwhile.
    public var ownCPUSeconds = 0.0
    /// Nanoseconds, each with what it is of.
    public var latencies: [(name: String, histogram: Histogram)] = []
    /// Answers by HTTP status; 0 stands for a connection or stream that broke.
    public var statuses: [Int: Int] = [:]
    /// Whatever else there is to say, in the order in which it is to be shown.
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
