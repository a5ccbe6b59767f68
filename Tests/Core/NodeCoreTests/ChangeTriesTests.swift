import Model
import Testing

@testable import NodeCore

@Suite("Tries of a change") struct ChangeTriesTests {
    @Test("are many, and not without end; their pauses grow")
    func pauses() {
        var random = SeededGenerator(seed: 1)
        var tries = ChangeTries()
        var pauses: [TimeSpan] = []
        while let pause = tries.pause(using: &random) { pauses.append(pause) }
        #expect(pauses.count == ChangeTries.max - 1)
        #expect(pauses.allSatisfy { (TimeSpan.milliseconds(5)...(.milliseconds(320))).contains($0) })
        #expect(pauses.reduce(.zero, +) > .seconds(1))
    }
}
