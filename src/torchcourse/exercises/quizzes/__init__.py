"""The exercises of lesson 15, quizzes: predictors, examined with PyTorch itself as the oracle."""
