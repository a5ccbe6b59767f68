import Model

extension ControlCore {
    /// Where the clocks agree, loops that doubt the node's clock believe it again. Where they differ,
    /// whichever is right, an operator must know.
    func compare(_ reading: ClockReading) {
        let (look, isNew) = clocks.compare(reading)
        effects.append(.noted(.clockCompared(ahead: clocks.ahead)))
        if isNew {
            effects.append(.noted(clocks.differs ? .clockDiffers(ahead: clocks.ahead) : .clockAgrees))
        }
        effects.append(.orderAll(.clockCompared(look == .agrees ? reading.own : nil)))
    }
}
