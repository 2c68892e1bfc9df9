"""K-FAC, Adam, SGD and Muon in Keras' `fit`: steps and seconds to a training loss."""
