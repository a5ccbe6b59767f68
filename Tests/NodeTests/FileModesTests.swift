import Testing

@testable import Node

@Suite("Modes of files and folders") struct FileModesTests {
    @Test("are refused where other users may read or change")
    func others() {
        for (mode, owner, isFile, reason) in [
            (0o600, 1000, true, nil), (0o400, 1000, true, nil), (0o640, 1000, true, "read"),
            (0o604, 1000, true, "read"), (0o620, 1000, true, "changed"), (0o666, 1000, true, "changed"),
            (0o640, 0, true, nil), (0o440, 0, true, nil), (0o644, 0, true, "read"),
            (0o660, 0, true, "changed"),
            (0o700, 1000, false, nil), (0o750, 1000, false, "read"), (0o755, 1000, false, "read"),
            (0o701, 1000, false, "read"), (0o777, 1000, false, "changed"), (0o750, 0, false, "read"),
            (0o2700, 1000, false, nil),
        ] as [(UInt32, UInt32, Bool, String?)] {
            #expect(
                FileModes.reason(mode: mode, owner: owner, isFile: isFile) == reason,
                "\(String(mode, radix: 8)) of \(owner)")
        }
    }
}
