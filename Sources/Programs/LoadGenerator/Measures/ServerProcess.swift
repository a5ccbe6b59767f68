import Glibc

/// CPU time and memory of the measured processes, as Linux counts them in `/proc` (proc(5)).
public struct ServerProcess: Sendable {
    public var pids: [Int32]

    public init(pids: [Int32]) { self.pids = pids }

    /// CPU seconds of all threads so far, user and system; nil if no process is named or one has ended.
    public func cpuSeconds() -> Double? {
        guard !pids.isEmpty else { return nil }
        var ticks = 0
        for pid in pids {
            guard let text = ServerProcess.read("/proc/\(pid)/stat"), let used = ServerProcess.ticks(in: text)
            else { return nil }
            ticks += used
        }
        return Double(ticks) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    /// Resident bytes (`VmRSS`) of all processes.
    public func residentBytes() -> Int? { status("VmRSS:") }

    /// The highest resident bytes so far (`VmHWM`), of all processes.
    public func peakResidentBytes() -> Int? { status("VmHWM:") }

    private func status(_ field: String) -> Int? {
        guard !pids.isEmpty else { return nil }
        var total = 0
        for pid in pids {
            guard let text = ServerProcess.read("/proc/\(pid)/status"),
                let kibibytes = ServerProcess.kibibytes(of: field, in: text)
            else { return nil }
            total += kibibytes * 1024
        }
        return total
    }

    /// utime + stime, the 14th and 15th fields; the 2nd field is a name in parentheses with any characters.
    static func ticks(in stat: String) -> Int? {
        guard let end = stat.lastIndex(of: ")") else { return nil }
        let fields = stat[stat.index(after: end)...].split(separator: " ")
        guard fields.count > 12, let user = Int(fields[11]), let system = Int(fields[12]) else { return nil }
        return user + system
    }

    static func kibibytes(of field: String, in status: String) -> Int? {
        for line in status.split(separator: "\n") where line.hasPrefix(field) {
            let words = line.split { $0 == " " || $0 == "\t" }
            return words.count > 1 ? Int(words[1]) : nil
        }
        return nil
    }

    private static func read(_ path: String) -> String? {
        let file = open(path, O_RDONLY)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        let count = Glibc.read(file, &bytes, bytes.count)
        guard count > 0 else { return nil }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}
