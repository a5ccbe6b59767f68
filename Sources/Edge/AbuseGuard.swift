/// Counts what an HTTP/2 client may send for nothing, and says when it is too much.
///
/// libnghttp2 stops some floods by itself (CONTINUATION, rapid resets, acknowledgements that are not read);
/// these it lets through. Counts are of a window of 30 seconds; a client that keeps within them is never
/// touched. Time is handed in.
struct AbuseGuard {
    static let windowSeconds = 30

    /// What is counted, with the most that one window may hold.
    enum Kind: Int, CaseIterable {
        /// PING and SETTINGS, each of which makes the server answer, and GOAWAY.
        case control
        /// Frames that were invalid, and streams that the server had to reset (CVE-2025-8671,
        /// "MadeYouReset").
        case fault
        /// PRIORITY: means nothing here.
        case priority
        /// DATA without bytes, or of padding only, that does not end its stream.
        case emptyData
        /// WINDOW_UPDATE: one for each frame that the server sends is usual, hundreds for each are not.
        case windowUpdate
        /// Frames of types that mean nothing here.
        case unknown

        var max: Int {
            switch self {
            case .control: 200
            case .fault: 200
            case .priority: 500
            case .emptyData: 200
            case .windowUpdate: 2000
            case .unknown: 200
            }
        }
    }

    private var counts = [Int](repeating: 0, count: Kind.allCases.count)
    private var windowStart = 0
    /// Frames that the server sent in the window: each may be answered by two window updates.
    private var sent = 0

    /// False where the connection is to be closed.
    mutating func admits(_ kind: Kind, second: Int) -> Bool {
        roll(second)
        counts[kind.rawValue] += 1
        let allowance = kind == .windowUpdate ? kind.max + sent * 2 : kind.max
        return counts[kind.rawValue] <= allowance
    }

    mutating func noteSent(second: Int) {
        roll(second)
        sent += 1
    }

    private mutating func roll(_ second: Int) {
        guard second - windowStart >= AbuseGuard.windowSeconds else { return }
        windowStart = second
        sent = 0
        for place in counts.indices { counts[place] = 0 }
    }
}
